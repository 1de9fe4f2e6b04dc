// The cells of a row, and the small picture of its loss.
const Cells = (() => {
  const LONGEST = innerWidth < 480 ? 36 : 60; // letters of a name that are shown
  const HAS_FRONT_END = document.body?.dataset.frontEnd !== "missing"; // so that MindInsight's pages can be linked
  const WIDTH = 90, HEIGHT = 20; // pixels of the picture
  const { make } = Dom, { t } = Texts;

  const two = (number) => String(number).padStart(2, "0");

  // Local time such as 2026-01-31 09:05:00; the browser's own formats take 20 ms at first.
  function day(seconds) {
    const time = new Date(seconds * 1000);
    const date = [time.getFullYear(), two(time.getMonth() + 1), two(time.getDate())].join("-");
    return `${date} ${[time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(":")}`;
  }

  function sparkline(values) {
    const finite = values.filter((one) => one !== null), low = Math.min(...finite), span = Math.max(...finite) - low || 1;
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg"), path = document.createElementNS(space, "polyline");
    for (const [key, size] of Object.entries({ width: WIDTH, height: HEIGHT, "aria-hidden": true })) svg.setAttribute(key, size);
    const x = (i) => (i * WIDTH) / Math.max(1, values.length - 1), y = (one) => HEIGHT - 2 - ((HEIGHT - 4) * (one - low)) / span;
    path.setAttribute("points", values.map((one, i) => (one === null ? "" : `${x(i)},${y(one)}`)).join(" "));
    svg.append(path);
    return svg;
  }

  // The address of a page that names runs as the server sends them, with a word joiner behind < and &.
  const encodedId = (id) => encodeURIComponent(id.replace(/[<&]/g, "$&\u2060"));

  function wrongAddress(id) {
    const language = Texts.isChinese() ? "zh" : "en";
    return `v1/mindinsight/what-went-wrong?${new URLSearchParams({ train_id: id, language })}`;
  }

  function nameCell(row, common) {
    const id = Table.idOf(row), name = Table.value(row, "run"), run = encodedId(id), facts = Table.factsOf(row);
    const link = (page, text) => make("a", { href: `./#/train-manage/${page}=${run}&summaryPath=${run}` }, text);
    const more = make("div", { className: "small" });
    const copy = make("button", { type: "button", className: "copy", title: t("copy"), ariaLabel: `${t("copy")}: ${name}` });
    if (HAS_FRONT_END && facts.has_graph) more.append(link("graph?train_id", t("graph")));
    if (HAS_FRONT_END && facts.has_landscape) more.append(link("loss-analysis?train_id", t("landscape")));
    if (facts.has_statistics) more.append(make("a", { href: wrongAddress(id) }, t("wrong")));
    const short = Names.shortened(name, LONGEST, common);
    const shown = HAS_FRONT_END ? link("training-dashboard?id", short) : make("span", { tabIndex: 0 }, short);
    shown.title = name;
    return make("td", { className: "name", role: "rowheader" }, shown, copy, more);
  }

  function statusContent(row, status) {
    const isRunning = Table.factsOf(row).is_growing || status === "running";
    const word = isRunning ? t("running") : Texts.chinese(status) ?? "–";
    const kind = isRunning ? "growing" : /fail|kill/i.test(status ?? "") ? "failed" : "";
    const more = Table.factsOf(row).diverged ? [" ", make("span", { className: "failed" }, t("diverged"))] : [];
    return [make("span", { className: kind }, word), ...more];
  }

  function content(row, name) {
    const found = Table.value(row, name);
    if (name === "written") return [day(found)];
    if (name === "started") return [found === null ? "–" : day(found)];
    if (name === "status") return statusContent(row, found);
    if (name !== "curve") return [Numbers.readable(found)];
    if (found === null) return ["–"];
    const { line, tag } = Table.factsOf(row);
    return [sparkline(line), make("span", { title: tag }, Numbers.readable(found))];
  }

  function line(row, columns, numbers, common) {
    const id = Table.idOf(row);
    const tick = make("input", { type: "checkbox", ariaLabel: Table.value(row, "run") });
    const cell = (name) => make("td", { className: numbers.has(name) ? "number" : "" }, ...content(row, name));
    const cells = columns.map((name) => (name === "run" ? nameCell(row, common) : cell(name)));
    const element = make("tr", {}, make("td", { className: "tick" }, tick, Colours.chip(id)), ...cells);
    element.dataset.id = id;
    return element;
  }

  function head(name, isNumber, { sort, desc }) {
    const isSorted = sort === name, arrow = isSorted ? (desc ? " ↓" : " ↑") : "";
    const button = make("button", { type: "button", title: name }, Table.label(name) + arrow);
    const ariaSort = isSorted ? (desc ? "descending" : "ascending") : "none";
    return make("th", { className: isNumber ? "number" : "", scope: "col", ariaSort }, button);
  }

  return { HAS_FRONT_END, day, line, head };
})();
