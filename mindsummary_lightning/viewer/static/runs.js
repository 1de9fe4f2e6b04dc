// The table of runs: the server searches and sorts, this page shows; steps and curves are asked for the rows in sight.
"use strict";
(() => {
  const API = "v1/mindinsight/run-table";
  const REFRESH_MS = 10000;
  const LONGEST = innerWidth < 480 ? 36 : 60; // characters of a name that are shown
  const SETTINGS = 8; // columns of settings that are shown at first
  const HIDDEN = /path$|^dataset_mark$|^status$|_version$/; // of these none at first
  const TEXTS = {
    "language": ["中文", "English"], "title": ["Runs: {0}", "训练表：{0}"],
    "run": ["run", "训练"], "written": ["last written", "最近写入"], "status": ["status", "状态"],
    "steps": ["steps", "步数"], "curve": ["loss curve", "损失曲线"], "front": ["MindInsight's list", "训练列表（MindInsight）"],
    "lineage": ["model lineage", "模型溯源"], "columns": ["columns", "选择列"], "size": ["rows", "每页行数"], "csv": ["CSV", "CSV"],
    "search": ["name, setting, or metric/accuracy>0.9", "名称、参数，或 metric/accuracy>0.9"],
    "count": ["{0} of {1} runs", "共 {1} 个训练，符合条件 {0} 个"], "page": ["page {0} of {1}", "第 {0} 页，共 {1} 页"],
    "ticked": ["{0} ticked:", "已选 {0} 个："], "untick": ["untick all", "取消全选"], "reading": [", {0} being read", "，正在读取 {0} 个"],
    "started": ["started", "开始时间"], "duration": ["duration", "时长"], "pace": ["s per step", "每步秒数"],
    "last": ["last {0}", "{0} 最后值"], "min": ["least {0}", "{0} 最小值"], "max": ["greatest {0}", "{0} 最大值"], "best_step": ["step of the best {0}", "{0} 最佳值的步数"], "add": ["add column", "添加列"],
    "tag": ["scalar tag", "标量标签"], "group": ["group by", "分组"], "nogroup": ["–", "–"], "number": ["runs", "训练数"], "mean": ["mean ± sd of {0}", "{0} 平均值 ± 标准差"],
    "best": ["{0}: least … greatest", "{0}：最小 … 最大"],
    "overlay": ["curves of the ticked runs", "所选训练的曲线"], "smooth": ["smoothing", "平滑"], "log": ["logarithmic", "对数坐标"], "time": ["by time", "按时间"],
    "step": ["step", "步数"], "seconds": ["seconds", "秒"], "empty": ["no ticked run has this tag", "所选训练都没有这个标签"],
    "all": ["tick all that are found", "全选符合条件的训练"],
    "compare": ["compare curves", "标量对比"], "difference": ["where they differ", "查看差异起点"], "surfaces": ["compare loss landscapes", "损失函数图形对比"],
    "table": ["model lineage of these", "所选训练的模型溯源"], "graph": ["graph", "计算图"],
    "landscape": ["landscape", "损失函数多维分析"], "running": ["running", "运行中"], "diverged": ["diverged", "已发散"], "none": ["There is no run below this directory yet.", "此目录下还没有训练。"],
    "unknown": ["no run has {0}", "所有训练中都没有字段 {0}"], "ambiguous": ["{0} is the end of several names: {1}", "有多个字段以 {0} 结尾：{1}"], "comparable": ["{0} is compared with a number", "{0} 只能与数值比较"],
    "nowhere": ["no run has “{0}” in its name or settings", "所有训练的名称和参数中都没有“{0}”"],
    "missing": [
      "Only this table is shown, because MindInsight's front end is missing. With a network, start `mindsummary view` again: it fetches the front end from pip's index. Without one, run `python -m pip download --no-deps mindinsight==2.3.1` on another machine, copy the file, and start `mindsummary view RUNS --wheel mindinsight-2.3.1-py3-none-any.whl` once.",
      "缺少 MindInsight 的前端文件，因此只显示此表。有网络时，请重新启动 `mindsummary view`，它会从 pip 的软件源下载。没有网络时，请在另一台机器上运行 `python -m pip download --no-deps mindinsight==2.3.1`，复制得到的文件，然后运行一次 `mindsummary view RUNS --wheel mindinsight-2.3.1-py3-none-any.whl`。",
    ],
    "failed": ["The server does not answer.", "服务器没有响应。"], "previous": ["previous page", "上一页"], "next": ["next page", "下一页"],
    "keys": [
      "Keys: / searches, ↑ and ↓ move between runs, Space ticks one, Enter opens it. Search: word, -word, a*b, \"two words\", name>1, one OR other, written>=2026-01-31. Nothing here changes a run.",
      "快捷键：/ 搜索，↑ ↓ 切换训练，空格选中，Enter 打开。搜索：词、-词、a*b、\"多个词\"、name>1、甲 OR 乙、written>=2026-01-31。本页面不会修改任何训练日志。",
    ],
  };
  // MindInsight's own Chinese names of columns, and states.
  const CHINESE = {
    learning_rate: "学习率", model_size: "模型大小", network: "网络", optimizer: "优化器", loss_function: "损失函数", loss: "损失值", epoch: "epoch",
    batch_size: "batch size", train_dataset_count: "训练样本数量", test_dataset_count: "测试样本数量", device_num: "device数目",
    train_dataset_path: "训练数据集路径", test_dataset_path: "测试数据集路径", dataset_mark: "数据处理",
    running: "运行中", finished: "已完成", failed: "失败", interrupted: "已中止", killed: "被终止", pruned: "提前终止",
  };
  const FIXED = ["run", "written", "status", "curve", "steps"]; // shown at first
  const OF_FILES = ["diverged", "started", "duration", "pace"]; // of summary files, as steps and curve are
  const SCALAR = /^(last|min|max|best_step):(.+)$/s; // a column of any scalar
  const IS_READ = /^(steps|curve|diverged|started|duration|pace)$|^(last|min|max|best_step):/; // for a column of these the files of all runs are read
  const HAS_FRONT_END = document.body.dataset.frontEnd !== "missing"; // so that MindInsight's pages can be linked
  const $ = (id) => document.getElementById(id);
  const DEFAULTS = { q: "", sort: "", desc: false, page: 1, size: 50, group: "", over: "", smooth: 0, log: false, time: false };
  const state = { ...DEFAULTS, cols: null, ticked: new Set() };
  let table = { unread: 0, train_ids: [], runs: [], written: [], columns: {}, same: {} };
  let found = null; // train ids that the server found, sorted; null: all of the table
  let order = []; // rows that are found, sorted
  let page = 1; // that is drawn: state.page, or the last one while fewer rows are found
  let problem = "", language = 0, isLoaded = false;
  let isAsking = false, isOutdated = false, unreadFound = 0; // of the search
  const curves = new Map(); // of runs that were read, by train id
  const outdated = new Set(); // train ids of those that may have grown since
  let wanted = []; // train ids whose curves are to be read
  let isReading = false;
  let lastTicked = ""; // train id of the run whose box was clicked last

  const t = (key, ...values) => values.reduce((text, value, i) => text.replaceAll(`{${i}}`, value), TEXTS[key][language]);
  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key in element && key !== "list") element[key] = value;
      else element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  };

  // ---- the state is in the address

  function readAddress() {
    const found = new URLSearchParams(location.hash.slice(1));
    for (const [name, plain] of Object.entries(DEFAULTS)) {
      const text = found.get(name);
      state[name] = text === null ? plain : { boolean: true, number: Number(text) || plain, string: text }[typeof plain];
    }
    state.page = Math.max(1, Math.floor(state.page));
    if (![20, 50, 100, 500].includes(state.size)) state.size = 50;
    state.smooth = Math.min(0.99, Math.max(0, state.smooth));
    state.cols = found.has("col") ? found.getAll("col") : null;
    state.ticked = new Set(found.getAll("tick"));
  }

  function writeAddress() {
    const address = new URLSearchParams();
    for (const [name, plain] of Object.entries(DEFAULTS)) if (state[name] !== plain) address.set(name, state[name] === true ? 1 : state[name]);
    for (const name of state.cols ?? []) address.append("col", name);
    for (const id of state.ticked) address.append("tick", id);
    history.replaceState(null, "", address.size ? `#${address}` : location.pathname + location.search);
  }

  // ---- values

  const curve = (row) => curves.get(table.train_ids[row]) ?? {};

  function value(row, name) {
    if (name === "run") return table.runs[row];
    if (name === "summary_dir") return table.train_ids[row];
    if (name === "written") return curve(row).written ?? table.written[row];
    if (name === "steps") return curve(row).steps ?? null;
    if (name === "curve") return curve(row).loss ?? null;
    if (OF_FILES.includes(name)) return curve(row)[name] ?? null;
    const scalar = SCALAR.exec(name);
    if (scalar) return curve(row).scalars?.[scalar[2]]?.[["last", "min", "max", "best_step"].indexOf(scalar[1])] ?? null;
    if (has(table.columns, name)) return table.columns[name][row];
    return has(table.same, name) ? table.same[name] : null;
  }

  const has = Object.hasOwn; // an address may name anything, `constructor` too
  const names = () => [...Object.keys(table.columns), ...Object.keys(table.same)];
  const known = (name) => has(table.columns, name) || has(table.same, name) || FIXED.includes(name) || OF_FILES.includes(name) || SCALAR.test(name) || name === "summary_dir";
  const scalarTags = () => [...new Set((state.cols ?? []).map((name) => SCALAR.exec(name)?.[2]).filter(Boolean))];
  const tags = () => [...new Set([...curves.values()].flatMap((facts) => facts.tags ?? []))].sort();
  const chinese = (text) => (language && has(CHINESE, text) ? CHINESE[text] : text);
  const bare = (name) => name.replace(/^(metric|user_defined)\//, "");
  const label = (name) => {
    const scalar = SCALAR.exec(name);
    if (scalar) return t(scalar[1], scalar[2]);
    return FIXED.includes(name) || OF_FILES.includes(name) ? t(name) : chinese(bare(name));
  };

  function shownColumns() {
    if (state.cols) return ["run", ...state.cols.filter((name) => name !== "run" && known(name))];
    const counts = Object.entries(table.columns).map(([name, values]) => [name, values.filter((one) => one !== null).length]);
    counts.sort((a, b) => b[1] - a[1] || a[0].split("/").length - b[0].split("/").length);
    const metric = counts.filter(([name]) => name.startsWith("metric/")).slice(0, 1).map(([name]) => name);
    if (!metric.length) metric.push(...Object.keys(table.same).filter((name) => name.startsWith("metric/")).slice(0, 1));
    const differs = (name) => new Set(table.columns[name].filter((one) => one !== null)).size > 1;
    const settings = counts.map(([name]) => name).filter((name) => !name.startsWith("metric/") && !HIDDEN.test(name) && differs(name));
    const shown = [];
    for (const name of settings) { // a nested one that repeats another, as an optimizer's lr the learning rate, is left out
      const repeats = (one) => bare(name).includes("/") && table.columns[one].every((cell, row) => cell === table.columns[name][row]);
      if (shown.length < SETTINGS && !shown.some(repeats)) shown.push(name);
    }
    return [...FIXED, ...metric, ...shown];
  }

  // ---- search and order, which the server finds: it knows the one query language

  // What a cell or a head of this language shows, and what the server calls it.
  function aliases() {
    const words = language ? Object.entries(CHINESE) : [];
    const heads = [...FIXED.slice(1), ...OF_FILES, ...(state.cols ?? []).filter((name) => SCALAR.test(name))];
    const shown = [...words.map(([name, text]) => [text, name]), ...heads.map((name) => [label(name), name])];
    return Object.fromEntries([...shown, [t("running"), "running"]].filter(([text, name]) => text !== name && !known(text)));
  }

  function find() {
    if (state.group && shownColumns().some((name) => SCALAR.test(name) || OF_FILES.includes(name))) ask(table.train_ids);
    isOutdated = true;
    if (state.q.trim() || state.sort) {
      $("grid").ariaBusy = "true";
      if (!isAsking) search();
    } else {
      [found, problem, unreadFound, isOutdated] = [null, "", 0, isAsking];
      setOrder();
    }
  }

  function setOrder() {
    const rows = new Map(table.train_ids.map((id, row) => [id, row]));
    order = found === null ? [...rows.values()] : found.map((id) => rows.get(id)).filter((row) => row !== undefined);
  }

  // One search at a time; what was typed meanwhile is searched for next.
  async function search() {
    isAsking = true;
    while (isOutdated) {
      isOutdated = false;
      if (!state.q.trim() && !state.sort) break;
      const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      const answer = await post("search", { query: state.q, sort: state.sort, descending: state.desc, aliases: aliases(), timezone });
      if (isOutdated) continue;
      const before = unreadFound;
      found = answer?.train_ids ?? [];
      unreadFound = answer?.unread ?? 0;
      problem = answer ? said(answer) : t("failed");
      isOutdated = unreadFound > 0 && (before === 0 || unreadFound < before); // the server reads for a second at a time
      setOrder();
      if (isOutdated) draw();
    }
    isAsking = false;
    if (!state.q.trim() && !state.sort) [found, problem, unreadFound] = [null, "", 0];
    setOrder();
    $("grid").ariaBusy = "false";
    draw();
  }

  function said(answer) {
    if (answer.problem) return t({ number: "comparable" }[answer.problem.kind] ?? answer.problem.kind, answer.problem.field, answer.problem.names.join(", "));
    return answer.nowhere ? t("nowhere", answer.nowhere) : "";
  }

  // ---- the page

  function draw() {
    const pages = Math.max(1, Math.ceil(order.length / state.size));
    page = Math.min(state.page, pages);
    const rows = order.slice((page - 1) * state.size, page * state.size);
    const columns = shownColumns();
    if (state.group && known(state.group)) return drawGroups(columns);
    const numbers = new Set(columns.filter((name) => !["written", "curve"].includes(name) && rows.some((row) => typeof value(row, name) === "number")));
    const focus = focusIn(document.activeElement);
    $("grid").tHead.replaceChildren(make("tr", {}, make("th", {}, tickAll()), ...columns.map((name) => head(name, numbers.has(name)))));
    $("grid").tBodies[0].replaceChildren(...rows.map((row) => line(row, columns, numbers)));
    focus?.();
    ask(rows.map((row) => table.train_ids[row]));
    drawAround(pages);
  }

  // What stands above and below the table.
  function drawAround(pages) {
    const unread = wanted.length || table.unread || unreadFound;
    const waiting = unread ? t("reading", unread) : "";
    if (found === null && isAsking) return drawTicked(); // the first answer is still to come
    const count = problem || (isLoaded && !table.train_ids.length ? t("none") : t("count", order.length, table.train_ids.length) + waiting);
    if ($("count").textContent !== count) $("count").textContent = count; // once: it is read aloud
    $("count").classList.toggle("bad", Boolean(problem));
    $("page").textContent = pages ? t("page", page, pages) : "";
    $("before").disabled = page <= 1 || !pages;
    $("after").disabled = page >= pages;
    drawTicked();
  }

  // A row for each value of a setting: how many runs have it, and their results.
  function drawGroups(columns) {
    const results = columns.filter((name) => name !== state.group && (/^metric\/|^loss$/.test(name) || IS_READ.test(name)) && !["steps", "curve", "started"].includes(name));
    const groups = new Map();
    for (const row of order) groups.set(value(row, state.group), groups.get(value(row, state.group)) ?? []).get(value(row, state.group)).push(row);
    const text = new Intl.Collator(undefined, { numeric: true });
    const sorted = [...groups].sort(([a], [b]) => (a === null) - (b === null) || text.compare(String(a), String(b)));
    const cell = (content) => make("td", { className: "number" }, content);
    const lines = sorted.map(([one, rows]) => make("tr", {}, make("td"), make("td", { className: "name", role: "rowheader" }, readable(one)), cell(String(rows.length)), ...results.flatMap((name) => {
      const found = rows.map((row) => value(row, name)).filter((number) => typeof number === "number");
      if (!found.length) return [cell("–"), cell("–")];
      const mean = found.reduce((sum, number) => sum + number, 0) / found.length;
      const deviation = Math.sqrt(found.reduce((sum, number) => sum + (number - mean) ** 2, 0) / (found.length - 1));
      const least = found.reduce((a, b) => Math.min(a, b)), greatest = found.reduce((a, b) => Math.max(a, b));
      return [cell(`${readable(mean)} ± ${found.length > 1 ? readable(Number(deviation.toPrecision(2))) : "–"}`), cell(`${readable(least)} … ${readable(greatest)}`)];
    })));
    const heads = [label(state.group), t("number"), ...results.flatMap((name) => [t("mean", label(name)), t("best", label(name))])];
    $("grid").tHead.replaceChildren(make("tr", {}, make("th"), ...heads.map((text, i) => make("th", { className: i ? "number" : "", scope: "col" }, text))));
    $("grid").tBodies[0].replaceChildren(...lines);
    drawAround(0);
  }

  // The table is drawn anew as runs grow: what gives the focus back to the same link, box or button.
  function focusIn(element) {
    const parts = (row) => [...row.querySelectorAll("a, span[tabindex], button, input")];
    const row = element?.closest("tr"), at = row ? parts(row).indexOf(element) : -1;
    return row && (() => {
      const same = [...$("grid").rows].find((one) => one.dataset.id === row.dataset.id);
      if (same) parts(same)[at]?.focus({ preventScroll: true });
    });
  }

  function head(name, isNumber) {
    const isSorted = state.sort === name;
    const button = make("button", { type: "button", title: name }, label(name) + (isSorted ? (state.desc ? " ↓" : " ↑") : ""));
    button.addEventListener("click", () => {
      [state.sort, state.desc] = isSorted ? (state.desc ? ["", false] : [name, true]) : [name, false];
      state.page = 1;
      update();
    });
    return make("th", { className: isNumber ? "number" : "", scope: "col", ariaSort: isSorted ? (state.desc ? "descending" : "ascending") : "none" }, button);
  }

  function line(row, columns, numbers) {
    const id = table.train_ids[row];
    const tick = make("input", { type: "checkbox", checked: state.ticked.has(id), ariaLabel: value(row, "run") });
    tick.addEventListener("click", (event) => {
      const from = event.shiftKey ? order.findIndex((one) => table.train_ids[one] === lastTicked) : -1, to = order.indexOf(row);
      const range = from < 0 ? [row] : order.slice(Math.min(from, to), Math.max(from, to) + 1);
      for (const one of range) state.ticked[tick.checked ? "add" : "delete"](table.train_ids[one]);
      lastTicked = id;
      drawTicks();
    });
    const cells = columns.map((name) => (name === "run" ? nameCell(row) : make("td", { className: numbers.has(name) ? "number" : "" }, ...cellContent(row, name))));
    const element = make("tr", { className: state.ticked.has(id) ? "on" : "" }, make("td", {}, tick), ...cells);
    element.dataset.id = id;
    return element;
  }

  function tickAll() {
    const box = make("input", { type: "checkbox", title: t("all"), ariaLabel: t("all") });
    box.addEventListener("click", () => {
      for (const row of order) state.ticked[box.checked ? "add" : "delete"](table.train_ids[row]);
      drawTicks();
    });
    return box;
  }

  function drawTicks() {
    for (const row of $("grid").tBodies[0].rows) {
      const isOn = state.ticked.has(row.dataset.id);
      row.classList.toggle("on", isOn);
      row.querySelector("input").checked = isOn;
    }
    writeAddress();
    drawTicked();
  }

  function nameCell(row) {
    const id = table.train_ids[row], shown = value(row, "run"), run = encodeURIComponent(id.replace(/[<&]/g, "$&\u2060")), facts = curve(row);
    const link = (page, key) => make("a", { href: `./#/train-manage/${page}=${run}&summaryPath=${run}` }, key);
    const more = make("div", { className: "small" });
    if (HAS_FRONT_END && facts.has_graph) more.append(link("graph?train_id", t("graph")));
    if (HAS_FRONT_END && facts.has_landscape) more.append(link("loss-analysis?train_id", t("landscape")));
    const short = shown.length > LONGEST ? `${shown.slice(0, LONGEST / 2)}…${shown.slice(-LONGEST / 2)}` : shown;
    const name = HAS_FRONT_END ? link("training-dashboard?id", short) : make("span", { tabIndex: 0 }, short);
    name.title = shown;
    return make("td", { className: "name", role: "rowheader" }, name, more);
  }

  function cellContent(row, name) {
    const found = value(row, name);
    if (name === "written") return [written(row)];
    if (name === "started") return [found === null ? "–" : day(found)];
    if (name === "status") {
      const isRunning = curve(row).is_growing || found === "running";
      const word = isRunning ? t("running") : chinese(found) ?? "–", kind = isRunning ? "growing" : /fail|kill/i.test(found ?? "") ? "failed" : "";
      const more = curve(row).diverged ? [" ", make("span", { className: "failed" }, t("diverged"))] : [];
      return [make("span", { className: kind }, word), ...more];
    }
    if (name === "curve") return found === null ? ["–"] : [sparkline(curve(row).line), make("span", { title: curve(row).tag }, readable(found))];
    return [readable(found)];
  }

  const day = (seconds) => new Date(seconds * 1000).toLocaleString("sv", { dateStyle: "short", timeStyle: "medium" });
  const written = (row) => day(value(row, "written"));
  const readable = (found) => (found === null ? "–" : typeof found === "number" && !Number.isInteger(found) ? String(Number(found.toPrecision(6))) : String(found));

  function sparkline(values) {
    const finite = values.filter((one) => one !== null), low = Math.min(...finite), span = Math.max(...finite) - low || 1;
    const space = "http://www.w3.org/2000/svg", svg = document.createElementNS(space, "svg"), path = document.createElementNS(space, "polyline");
    for (const [key, size] of Object.entries({ width: 90, height: 20, "aria-hidden": true })) svg.setAttribute(key, size);
    const points = values.map((one, i) => (one === null ? "" : `${(i * 90) / Math.max(1, values.length - 1)},${18 - (16 * (one - low)) / span}`));
    path.setAttribute("points", points.join(" "));
    svg.append(path);
    return svg;
  }

  // Pages about the ticked runs: text, address, least and most runs. A page that compares two runs is one more line.
  const COMPARISONS = [
    ["compare", (ids) => `only/${encoded(ids)}/#/compare-analysis/scalar`, 1, 999],
    ["difference", ([a, b]) => `v1/mindinsight/comparison?${new URLSearchParams({ a, b, language: language ? "zh" : "en" })}`, 2, 2],
    ["surfaces", (ids) => `only/${encoded(ids)}/#/compare-analysis/loss`, 1, 999],
    ["table", (ids) => `only/${encoded(ids)}/#/model-traceback`, 1, 999],
  ].filter(([key]) => HAS_FRONT_END || key === "difference");

  function encoded(ids) {
    const bytes = new TextEncoder().encode(JSON.stringify(ids));
    return btoa(Array.from(bytes, (one) => String.fromCharCode(one)).join("")).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  }

  const tickedRuns = (listed = new Set(table.train_ids)) => [...state.ticked].filter((id) => listed.has(id));

  function drawTicked() {
    drawOverlay();
    const all = $("grid").tHead.querySelector("input");
    if (all) all.checked = order.length > 0 && order.every((row) => state.ticked.has(table.train_ids[row]));
    const ids = tickedRuns(), drawn = JSON.stringify([language, ids, ids.map((id) => curves.get(id)?.has_landscape)]);
    if ($("ticked").dataset.drawn === drawn) return; // a link in it keeps the focus
    $("ticked").dataset.drawn = drawn;
    const untick = make("button", { type: "button" }, t("untick"));
    untick.addEventListener("click", () => (state.ticked.clear(), update()));
    const hasSurface = ids.some((id) => curves.get(id)?.has_landscape);
    const links = COMPARISONS.filter(([key, , least, most]) => ids.length >= least && ids.length <= most && (key !== "surfaces" || hasSurface));
    $("ticked").replaceChildren(make("span", {}, t("ticked", ids.length)), ...links.map(([key, address]) => make("a", { href: address(ids) }, t(key))), untick);
    $("ticked").hidden = !ids.length;
  }

  function drawOverlay() {
    const ids = tickedRuns();
    $("overlay").hidden = !ids.length;
    if (!ids.length || !$("overlay").open) return;
    const list = tags();
    if ($("tags").childElementCount !== list.length) $("tags").replaceChildren(...list.map((tag) => make("option", { value: tag })));
    if (!state.over) state.over = curves.get(ids[0])?.tag ?? "";
    if (document.activeElement !== $("over")) $("over").value = state.over;
    const words = Object.fromEntries(["step", "seconds", "empty", "failed"].map((key) => [key, t(key)]));
    Overlay.draw($("plot"), ids, { tag: state.over, factor: state.smooth, isLogarithmic: state.log, isByTime: state.time }, words);
  }

  function drawChooser() {
    const chosen = shownColumns();
    const scalars = (state.cols ?? []).filter((name) => SCALAR.test(name));
    const names = [...new Set([...FIXED.slice(1), ...OF_FILES, ...scalars, ...Object.keys(table.columns), ...Object.keys(table.same)])];
    $("chooser").querySelector("div > div").replaceChildren(...names.map((name) => {
      const box = make("input", { type: "checkbox", checked: chosen.includes(name) });
      box.addEventListener("change", () => {
        const columns = shownColumns().filter((one) => one !== "run");
        state.cols = box.checked ? [...columns, name] : columns.filter((one) => one !== name);
        update();
      });
      return make("label", {}, box, " ", bare(name) === name ? label(name) : name);
    }));
    const groups = names.filter((name) => !IS_READ.test(name) && !["written", "status"].includes(name) && !name.startsWith("metric/"));
    $("group").replaceChildren(...["", ...groups].map((name) => make("option", { value: name, selected: name === state.group }, name ? label(name) : t("nogroup"))));
  }

  function drawWords() {
    document.documentElement.lang = language ? "zh-CN" : "en";
    document.title = t("title", table.name ?? "");
    $("title").textContent = table.name ?? "";
    for (const id of ["front", "lineage", "language", "csv"]) $(id).textContent = t(id);
    $("missing").textContent = t("missing");
    $("missing").hidden = HAS_FRONT_END;
    $("front").hidden = $("lineage").hidden = !HAS_FRONT_END;
    $("search").placeholder = $("search").ariaLabel = t("search");
    $("before").ariaLabel = t("previous");
    $("after").ariaLabel = t("next");
    $("chooser").firstElementChild.textContent = t("columns");
    for (const id of ["size", "group", "smooth", "log", "time"]) $(id).parentElement.querySelector("span").textContent = t(id);
    for (const id of ["scalar", "over"]) $(id).placeholder = $(id).ariaLabel = t("tag");
    $("add").textContent = t("add");
    for (const option of $("which").options) option.textContent = t(option.value, "").trim();
    $("overlay").firstElementChild.textContent = t("overlay");
    document.querySelector("footer").textContent = t("keys");
  }

  function update() {
    find();
    draw();
    writeAddress();
  }

  // ---- requests

  // The server puts a word joiner behind < and &, for pages that write names as HTML; here names are text.
  const decoded = async (answer) => JSON.parse((await answer.text()).replace(/([<&])\\u2060/g, "$1"));

  async function post(name, content) {
    const body = JSON.stringify(content);
    const answer = await fetch(`${API}/${name}`, { method: "POST", body, headers: { "Content-Type": "application/json" } }).catch(() => null);
    return answer?.ok ? decoded(answer) : null;
  }

  async function load() {
    const answer = await fetch(API, { headers: { Accept: "application/json" } }).catch(() => null);
    if (!answer?.ok) {
      problem = t("failed");
      draw();
      return;
    }
    table = await decoded(answer);
    isLoaded = true;
    setOrder();
    drawWords();
    find();
    draw();
    if (!$("chooser").open) drawChooser();
    if (table.unread) await load();
  }

  const isUnread = (id) => !curves.has(id) || outdated.has(id) || scalarTags().some((tag) => !has(curves.get(id).scalars ?? {}, tag));

  function ask(ids) {
    const queued = new Set(wanted);
    for (const id of ids) if (isUnread(id) && !queued.has(id)) wanted.push(id);
    if (!isReading && wanted.length) read();
  }

  async function read() {
    isReading = true;
    let drawn = performance.now();
    while (wanted.length) {
      const asked = scalarTags();
      const answer = await post("curves", { train_ids: wanted.slice(0, 500), tags: asked });
      if (!answer) break;
      const read = Object.entries(answer.curves);
      // A name that comes back as another has no curve; it would be asked for without end.
      if (!read.some(([id]) => wanted.includes(id))) read.push(...wanted.slice(0, 500).map((id) => [id, {}]));
      for (const [id, facts] of read) {
        facts.scalars = { ...Object.fromEntries(asked.map((tag) => [tag, null])), ...facts.scalars };
        if (curves.has(id) && curves.get(id).written !== facts.written) Overlay.forget(id);
        curves.set(id, facts);
        outdated.delete(id);
      }
      wanted = wanted.filter(isUnread);
      if (wanted.length && performance.now() - drawn < 1000) continue;
      drawn = performance.now();
      draw();
    }
    wanted = [];
    isReading = false;
    if (problem) find(); // a name may be that of a scalar which is known now
  }

  function expectGrowth() {
    for (const [id, facts] of curves) if (facts.is_growing !== false) outdated.add(id);
    const rows = order.slice((page - 1) * state.size, page * state.size);
    for (const row of rows) if (table.written[row] > (curve(row).written ?? 0) + 1) outdated.add(table.train_ids[row]);
  }

  // ---- controls

  $("search").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "ArrowDown") return;
    event.preventDefault();
    event.stopPropagation();
    document.querySelector("td.name > :first-child")?.focus();
  });
  $("csv").addEventListener("click", () => {
    const columns = shownColumns();
    const isFormula = (text) => /^[=+\-@＝＋－＠\t\r\n']/.test(text) && Number.isNaN(Number(text)) && /[^-+.\de ±…–]/.test(text); // to a spreadsheet
    const cell = (text) => (/[",\r\n]/.test(text) || isFormula(text) ? `"${isFormula(text) ? "'" : ""}${text.replaceAll('"', '""')}"` : text);
    const texts = (name, row) => (name === "written" ? written(row) : String(value(row, name) ?? ""));
    const lines = [columns, ...order.map((row) => columns.map((name) => texts(name, row)))];
    const groups = [...$("grid").rows].map((row) => [...row.cells].slice(1).map((one) => one.textContent));
    const text = (state.group ? groups : lines).map((line) => line.map(cell).join(",")).join("\n");
    const link = make("a", { href: URL.createObjectURL(new Blob([`\ufeff${text}\n`], { type: "text/csv" })), download: "runs.csv" });
    link.click();
    URL.revokeObjectURL(link.href);
  });
  $("add").addEventListener("click", () => {
    if (!$("scalar").value) return;
    state.cols = [...shownColumns().filter((one) => one !== "run"), `${$("which").value}:${$("scalar").value}`];
    $("scalar").value = "";
    drawChooser();
    update();
  });
  for (const id of ["search", "size", "group", "over", "smooth", "log", "time"]) {
    $(id).addEventListener(id === "search" || id === "smooth" ? "input" : "change", () => {
      const box = $(id), name = id === "search" ? "q" : id;
      state[name] = { boolean: box.checked, number: Number(box.value), string: box.value }[typeof DEFAULTS[name]];
      if (["q", "size"].includes(name)) state.page = 1;
      if (["q", "size", "group"].includes(name)) return update();
      writeAddress();
      drawOverlay();
    });
  }
  function showState() {
    for (const id of ["size", "smooth"]) $(id).value = state[id];
    for (const id of ["log", "time"]) $(id).checked = state[id];
    $("search").value = state.q;
    $("overlay").open = Boolean(state.over);
  }
  $("overlay").addEventListener("toggle", () => {
    drawOverlay();
    if (!$("overlay").open) state.over = "";
    writeAddress();
  });
  for (const [id, step] of [["before", -1], ["after", 1]]) {
    $(id).addEventListener("click", () => {
      state.page = page + step;
      draw();
      writeAddress();
    });
  }
  $("language").addEventListener("click", () => {
    language = 1 - language;
    localStorage.setItem("milang", language ? "zh-cn" : "en-us"); // MindInsight's own setting
    drawWords();
    update();
    drawChooser();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && $("chooser").open) {
      $("chooser").open = false;
      $("chooser").firstElementChild.focus();
    }
    if (event.target.matches("input[type=search], input[list], input[type=range], select")) return;
    if (event.key === "/") {
      event.preventDefault();
      $("search").focus();
    }
    if (event.key === " " && event.target.matches("td.name > :first-child")) {
      event.preventDefault();
      event.target.closest("tr").querySelector("input").dispatchEvent(new MouseEvent("click", { shiftKey: event.shiftKey, cancelable: true }));
    }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const links = [...document.querySelectorAll("td.name > :first-child")];
      const now = links.indexOf(document.activeElement?.closest("tr")?.querySelector("td.name > :first-child"));
      const next = links[now < 0 ? 0 : now + (event.key === "ArrowDown" ? 1 : -1)];
      if (next) next.focus();
      event.preventDefault();
    }
  });
  window.addEventListener("hashchange", () => {
    readAddress();
    showState();
    update();
    drawChooser();
  });

  language = (localStorage.getItem("milang") ?? navigator.language).startsWith("zh") ? 1 : 0;
  readAddress();
  showState();
  drawWords();
  load();
  setInterval(() => {
    if (document.hidden || isReading) return;
    expectGrowth();
    load();
  }, REFRESH_MS);
})();
