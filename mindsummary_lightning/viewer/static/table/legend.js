// The legend: the runs in the order of their values at the cursor, with these values; a box switches a curve off.
const Legend = (() => {
  let asked = 0;

  // `lines`: id, name and curve (null: switched off or hidden), `x`: the place of the cursor or null.
  function rows(lines, x) {
    const values = lines.map((line) => {
      const at = line.curve ? Curves.nearest(line.curve, x) : -1;
      return { ...line, at, value: at < 0 ? null : line.curve.smooth[at] };
    });
    // what is not finite is above all, what is not drawn below
    const rank = ({ at, value }) => (at < 0 ? -Infinity : value ?? Infinity);
    return values.sort((a, b) => (rank(b) > rank(a) ? 1 : rank(b) < rank(a) ? -1 : 0));
  }

  function row({ id, name, curve, at }, isSmooth) {
    const { make } = Dom;
    const box = make("input", { type: "checkbox", ariaLabel: name });
    const bad = curve?.badStep ?? null;
    const note = bad === null ? [] : [" ", make("span", { className: "failed" }, Texts.t("bad_from", bad))];
    const number = (text) => make("td", { className: "number" }, text);
    const value = (of) => number(curve ? (of[at] === null ? "NaN" : Numbers.exact(of[at])) : "–");
    const label = make("label", { title: name }, box, " ", Colours.chip(id), " ", make("span", {}, name));
    const cells = [number(curve ? String(curve.points[at].step) : "–"), value(curve?.values)];
    if (isSmooth) cells.push(number(curve && curve.smooth[at] !== null ? Numbers.exact(curve.smooth[at]) : "–"));
    const element = make("tr", {}, make("th", { scope: "row" }, label, ...note), ...cells);
    element.dataset.id = id;
    return element;
  }

  function draw(table, lines, x, isSmooth) {
    const { make } = Dom, words = ["run", "step", "value", ...(isSmooth ? ["smoothed"] : [])];
    const heads = make("tr", {}, ...words.map((word, i) => make("th", { scope: "col", className: i ? "number" : "" }, Texts.t(word))));
    heads.dataset.id = "heads";
    Dom.sync(table.tHead, [heads]);
    Dom.sync(table.tBodies[0], rows(lines, x).map((line) => row(line, isSmooth)));
    for (const line of lines) {
      const box = table.querySelector(`tr[data-id="${CSS.escape(line.id)}"] input`);
      if (box) box.checked = !line.isOff;
    }
  }

  // Once a frame, however often the pointer moves.
  function soon(...what) {
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(() => draw(...what));
  }

  function mark(table, id) {
    for (const line of table.tBodies[0].rows) line.classList.toggle("near", line.dataset.id === id);
  }

  return { rows, draw, soon, mark };
})();
