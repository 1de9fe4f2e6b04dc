// The table of runs: the server searches and sorts, this page shows; steps and curves are asked for the rows in sight.
(() => {
  const REFRESH_MS = 10000;
  const { $, make, setText } = Dom, { t } = Texts, { state } = Address;
  let page = 1; // that is drawn: state.page, or the last one while fewer rows are found
  let isLoaded = false, lastTicked = ""; // train id of the run whose box was clicked last

  function shownColumns() {
    if (state.cols) return ["run", ...state.cols.filter((name) => name !== "run" && Table.known(name))];
    return [...Table.FIXED, ...Columns.usual(Table.get(), Search.order(), Table.bare)];
  }

  const pages = () => Math.max(1, Math.ceil(Search.order().length / state.size));
  const rowsInSight = () => Search.order().slice((page - 1) * state.size, page * state.size);
  const ticked = (listed = new Set(Table.get().train_ids)) => [...state.ticked].filter((id) => listed.has(id));
  const ask = (ids) => Facts.ask(ids, draw, () => Search.problem() && find()); // a name may be that of a scalar which is known now

  // ---- the table

  function draw() {
    page = Math.min(state.page, pages());
    const columns = shownColumns(), isGrouped = state.group && Table.known(state.group);
    $("grid").classList.toggle("grouped", Boolean(isGrouped));
    if (isGrouped) return drawGroups(columns);
    const rows = rowsInSight(), common = Names.commonStart(rows.map((row) => Table.value(row, "run")));
    const isNumber = (name) => !["written", "curve"].includes(name) && rows.some((row) => typeof Table.value(row, name) === "number");
    const numbers = new Set(columns.filter(isNumber));
    drawHeads([make("td", { className: "tick" }, allBox()), ...columns.map((name) => Cells.head(name, numbers.has(name), state))]);
    Dom.sync($("grid").tBodies[0], rows.map((row) => Cells.line(row, columns, numbers, common)));
    ask([...rows.map(Table.idOf), ...ticked()]);
    drawAround(pages());
  }

  function drawHeads(cells) {
    const heads = make("tr", {}, ...cells);
    heads.dataset.id = "heads";
    Dom.sync($("grid").tHead, [heads]);
  }

  function drawGroups(columns) {
    drawHeads(Groups.heads(columns, state.group));
    Dom.sync($("grid").tBodies[0], Groups.lines(Search.order(), columns, state.group));
    drawAround(0);
  }

  const allBox = () => make("input", { type: "checkbox", title: t("everyrun"), ariaLabel: t("everyrun") });

  // What stands above and below the table.
  function drawAround(count) {
    if (Search.isWaiting()) return drawTicks(); // the first answer is still to come
    const { train_ids: all, unread } = Table.get(), reading = Facts.waiting() || unread || Search.unread();
    const found = t("count", Search.order().length, all.length) + (reading ? t("reading", reading) : "");
    setText($("count"), Search.problem() || (isLoaded && !all.length ? t("none") : found)); // once: it is read aloud
    $("count").classList.toggle("bad", Boolean(Search.problem()));
    setText($("page"), count ? t("page", page, count) : "");
    $("before").disabled = page <= 1 || !count;
    $("after").disabled = page >= count;
    drawTicks();
  }

  function drawTicks() {
    for (const row of $("grid").tBodies[0].rows) {
      const isOn = state.ticked.has(row.dataset.id);
      row.classList.toggle("on", isOn);
      const box = row.querySelector("input");
      if (box) box.checked = isOn;
    }
    const all = $("grid").tHead.querySelector("input"), order = Search.order();
    if (all) all.checked = order.length > 0 && order.every((row) => state.ticked.has(Table.idOf(row)));
    const ids = ticked();
    Links.draw($("ticked"), ids, () => {
      state.ticked.clear();
      state.off.clear();
      tickedAnew();
    });
    Panel.draw(ids);
  }

  function tickedAnew() {
    Address.write();
    ask(ticked());
    drawTicks();
  }

  function drawChooser() {
    const chosen = shownColumns(), { columns, same } = Table.get();
    const scalars = (state.cols ?? []).filter((name) => Table.SCALAR.test(name));
    const names = [...new Set([...Table.FIXED.slice(1), ...Table.OF_FILES, ...scalars, ...Object.keys(columns), ...Object.keys(same)])];
    $("chooser").querySelector("div > div").replaceChildren(...names.map((name) => {
      const box = make("input", { type: "checkbox", checked: chosen.includes(name), value: name });
      return make("label", {}, box, " ", Table.bare(name) === name ? Table.label(name) : name);
    }));
    const groups = names.filter((name) => !Table.IS_READ.test(name) && !["written", "status"].includes(name) && !Columns.isMetric(name));
    const option = (name) => make("option", { value: name, selected: name === state.group }, name ? Table.label(name) : t("nogroup"));
    $("group").replaceChildren(...["", ...groups].map(option));
  }

  function drawWords() {
    document.documentElement.lang = Texts.isChinese() ? "zh-CN" : "en";
    document.title = t("title", Table.get().name ?? "");
    setText($("title"), Table.get().name || t("table"));
    for (const id of ["front", "lineage", "language", "csv", "missing", "add"]) setText($(id), t(id));
    $("missing").hidden = Cells.HAS_FRONT_END;
    $("front").hidden = $("lineage").hidden = !Cells.HAS_FRONT_END;
    $("search").placeholder = $("search").ariaLabel = t("search");
    $("before").ariaLabel = t("previous");
    $("after").ariaLabel = t("next");
    $("scroll").ariaLabel = t("table");
    for (const id of ["elsewhere", "pages"]) $(id).ariaLabel = t(id);
    setText($("chooser").firstElementChild, t("columns"));
    for (const id of ["size", "group"]) setText($(id).parentElement.querySelector("span"), t(id));
    $("scalar").placeholder = $("scalar").ariaLabel = $("scalarlist").ariaLabel = t("tag");
    $("which").ariaLabel = t("which");
    for (const option of $("which").options) setText(option, t(option.value, "").trim());
    setText(document.querySelector("footer"), t("keys"));
    Panel.drawWords();
  }

  // ---- changes

  function find() {
    const isOfFiles = (name) => Table.SCALAR.test(name) || Table.OF_FILES.includes(name);
    if (state.group && shownColumns().some(isOfFiles)) ask(Table.get().train_ids);
    Search.find(draw);
  }

  function update() {
    find();
    draw();
    Address.write();
  }

  async function load() {
    const answer = await Search.get();
    if (!answer) {
      Search.fail();
      return draw();
    }
    Table.set(answer);
    Colours.assign(answer.train_ids, answer.lines);
    isLoaded = true;
    Search.setOrder();
    drawWords();
    find();
    draw();
    if (!$("chooser").open) drawChooser();
    requestAnimationFrame(() => setTimeout(Plot.ready));
    if (answer.unread) await load();
  }

  function setTicks(ids, isOn) {
    for (const id of ids) state.ticked[isOn ? "add" : "delete"](id);
    tickedAnew();
  }

  function tickRow(box, isRange) {
    const { id } = box.closest("tr").dataset, order = Search.order().map(Table.idOf);
    const from = isRange ? order.indexOf(lastTicked) : -1, to = order.indexOf(id);
    lastTicked = id;
    setTicks(from < 0 ? [id] : order.slice(Math.min(from, to), Math.max(from, to) + 1), box.checked);
  }

  // The better end first, then the other, then the order of writing.
  function sortBy(name) {
    const first = Columns.startsDescending(name);
    if (state.sort !== name) [state.sort, state.desc] = [name, first];
    else if (state.desc === first) state.desc = !first;
    else [state.sort, state.desc] = ["", false];
    state.page = 1;
    update();
  }

  async function copyName(button) {
    const name = button.closest("tr").querySelector("td.name > :first-child").title;
    await Dom.copy(name);
    setText($("said"), `${t("copied")}: ${name}`);
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1500);
  }

  function saveTable() {
    const columns = shownColumns();
    const text = (name, row) => (name === "written" ? Cells.day(Table.value(row, name)) : String(Table.value(row, name) ?? ""));
    const groups = () => [...$("grid").rows].map((row) => [...row.cells].slice(1).map((one) => one.textContent));
    const rows = () => [columns, ...Search.order().map((row) => columns.map((name) => text(name, row)))];
    Saving.saveCsv("runs.csv", state.group ? groups() : rows());
  }

  // ---- controls

  $("grid").addEventListener("click", ({ target, shiftKey }) => {
    const button = target.closest("button");
    if (button?.classList.contains("copy")) copyName(button);
    else if (button) sortBy(button.title);
    else if (target.matches("thead input")) setTicks(Search.order().map(Table.idOf), target.checked);
    else if (target.matches("tbody input")) tickRow(target, shiftKey);
  });
  $("search").addEventListener("input", () => {
    [state.q, state.page] = [$("search").value, 1];
    update();
  });
  $("search").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "ArrowDown") return;
    event.preventDefault();
    event.stopPropagation();
    document.querySelector("td.name > :first-child")?.focus();
  });
  $("size").addEventListener("change", () => {
    [state.size, state.page] = [Number($("size").value), 1];
    update();
  });
  $("group").addEventListener("change", () => {
    state.group = $("group").value;
    update();
  });
  $("chooser").addEventListener("change", ({ target }) => {
    if (target.type !== "checkbox") return;
    const columns = shownColumns().filter((one) => one !== "run");
    state.cols = target.checked ? [...columns, target.value] : columns.filter((name) => name !== target.value);
    update();
  });
  $("csv").addEventListener("click", saveTable);
  $("add").addEventListener("click", () => {
    if (!$("scalar").value) return;
    state.cols = [...shownColumns().filter((one) => one !== "run"), `${$("which").value}:${$("scalar").value}`];
    $("scalar").value = "";
    drawChooser();
    update();
  });
  for (const [id, step] of [["before", -1], ["after", 1]]) {
    $(id).addEventListener("click", () => {
      state.page = page + step;
      draw();
      Address.write();
    });
  }
  $("language").addEventListener("click", () => {
    Texts.setLanguage(Texts.isChinese() ? 0 : 1);
    localStorage.setItem("milang", Texts.isChinese() ? "zh-cn" : "en-us"); // MindInsight's own setting
    drawWords();
    update();
    drawChooser();
  });

  function moveFocus(direction) {
    const links = [...document.querySelectorAll("td.name > :first-child")];
    const now = links.indexOf(document.activeElement?.closest("tr")?.querySelector("td.name > :first-child"));
    links[now < 0 ? 0 : now + direction]?.focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && $("chooser").open) {
      $("chooser").open = false;
      $("chooser").firstElementChild.focus();
    }
    if (event.target.matches("input[type=search], input[role=combobox], input[type=range], select, #plot")) return;
    const direction = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "/") $("search").focus();
    else if (direction) moveFocus(direction);
    else if (event.key === " " && event.target.matches("td.name > :first-child")) {
      const click = new MouseEvent("click", { shiftKey: event.shiftKey, cancelable: true, bubbles: true });
      event.target.closest("tr").querySelector("input").dispatchEvent(click);
    } else return;
    event.preventDefault();
  });

  function showState() {
    $("size").value = state.size;
    $("search").value = state.q;
    Panel.showState();
  }

  window.addEventListener("hashchange", () => {
    Address.read(location.hash);
    showState();
    update();
    drawChooser();
  });

  Texts.setLanguage((localStorage.getItem("milang") ?? navigator.language).startsWith("zh") ? 1 : 0);
  Address.read(location.hash);
  Panel.attach(Address.write);
  Tags.attach($("scalar"), $("scalarlist"), {
    tags: () => Table.tagsOf([...Table.curves.keys()]), chosen: () => $("scalar").value, choose: () => {},
  });
  showState();
  drawWords();
  load();
  setInterval(() => {
    if (document.hidden || Facts.isReading()) return;
    Facts.expectGrowth(rowsInSight());
    load();
  }, REFRESH_MS);
})();
