// Search and order, which the server finds: it knows the one query language. One search is asked for at a time.
const Search = (() => {
  const API = "v1/mindinsight/run-table";
  const { state } = Address;
  let found = null; // train ids that the server found, sorted; null: all of the table
  let order = []; // rows that are found, sorted
  let problem = "", unread = 0, isAsking = false, isOutdated = false;
  const isAsked = () => Boolean(state.q.trim() || state.sort);

  // The server puts a word joiner behind < and &, for pages that write names as HTML; here names are text.
  const decoded = async (answer) => JSON.parse((await answer.text()).replace(/([<&])\\u2060/g, "$1"));

  async function get() {
    const answer = await fetch(API, { headers: { Accept: "application/json" } }).catch(() => null);
    return answer?.ok ? decoded(answer) : null;
  }

  async function post(name, content) {
    const body = JSON.stringify(content);
    const request = { method: "POST", body, headers: { "Content-Type": "application/json" } };
    const answer = await fetch(`${API}/${name}`, request).catch(() => null);
    return answer?.ok ? decoded(answer) : null;
  }

  // What a cell or a head of this language shows, and what the server calls it.
  function aliases() {
    const words = Texts.isChinese() ? Object.entries(Texts.CHINESE) : [];
    const scalars = (state.cols ?? []).filter((name) => Table.SCALAR.test(name));
    const heads = [...Table.FIXED.slice(1), ...Table.OF_FILES, "remark", ...scalars];
    const shown = [...words.map(([name, text]) => [text, name]), ...heads.map((name) => [Table.label(name), name])];
    const all = [...shown, [Texts.t("running"), "running"]];
    return Object.fromEntries(all.filter(([text, name]) => text !== name && !Table.known(text)));
  }

  function setOrder() {
    const ids = Table.get().train_ids, rows = new Map(ids.map((id, row) => [id, row]));
    order = found === null ? [...rows.values()] : found.map((id) => rows.get(id)).filter((row) => row !== undefined);
  }

  // Find the rows anew; `draw` is called whenever there is something to show.
  function find(draw) {
    isOutdated = true;
    if (isAsked()) {
      Dom.$("grid").ariaBusy = "true";
      if (!isAsking) search(draw);
    } else {
      [found, problem, unread, isOutdated] = [null, "", 0, isAsking];
      setOrder();
    }
  }

  async function search(draw) {
    isAsking = true;
    while (isOutdated) {
      isOutdated = false;
      if (!isAsked()) break;
      const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      const query = { query: state.q, sort: state.sort, descending: state.desc, aliases: aliases(), timezone };
      const answer = await post("search", query);
      if (isOutdated) continue;
      const before = unread;
      found = answer?.train_ids ?? [];
      unread = answer?.unread ?? 0;
      problem = answer ? said(answer) : Texts.t("failed");
      isOutdated = unread > 0 && (before === 0 || unread < before); // the server reads for a second at a time
      setOrder();
      if (isOutdated) draw();
    }
    isAsking = false;
    if (!isAsked()) [found, problem, unread] = [null, "", 0];
    setOrder();
    Dom.$("grid").ariaBusy = "false";
    draw();
  }

  function said({ problem: what, nowhere }) {
    if (what) return Texts.t({ number: "comparable" }[what.kind] ?? what.kind, what.field, what.names.join(", "));
    return nowhere ? Texts.t("nowhere", nowhere) : "";
  }

  const fail = () => (problem = Texts.t("failed"));
  return {
    get, post, find, setOrder, fail,
    order: () => order, problem: () => problem, unread: () => unread, isWaiting: () => found === null && isAsking,
  };
})();
