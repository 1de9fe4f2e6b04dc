// The curves, drawn one after the other, and the controls at the top of the page: runs, smoothing, a logarithmic axis.
"use strict";
(function () {
  const LINE = "#7d858f66", GRID = "#7d858f33"; // as in figures.py: they read on a light and on a dark page
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const ARRAYS = { "<i4": Int32Array, "<f4": Float32Array, "<f8": Float64Array };
  const words = JSON.parse(document.querySelector("main").dataset.words);
  const log = document.getElementById("log");
  const all = document.getElementById("all");
  const filter = document.getElementById("filter");
  const smoothing = document.getElementById("smoothing");

  const cards = [...document.querySelectorAll("[data-curves]")].map((element) => {
    const curves = JSON.parse(element.dataset.curves);
    return { element, curves, plots: {}, drawn: Promise.resolve() }; // a figure for each scale that was asked for
  });
  const isSmooth = () => Number(smoothing.value) > 0;
  const plots = () => cards.flatMap((card) => Object.values(card.plots));

  function unpacked([type, text]) {
    return new ARRAYS[type](Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
  }

  function makeSources(card) {
    for (const curve of card.curves) {
      const columns = Object.entries(curve.columns).map(([name, packed]) => [name, unpacked(packed)]);
      curve.source = new Bokeh.ColumnDataSource({ data: Object.fromEntries(columns) });
      for (const value of curve.source.data.value.filter((value) => value > 0)) {
        card.low = Math.min(card.low ?? value, value);
        card.high = Math.max(card.high ?? value, value);
      }
      if (isSmooth()) smooth(curve.source);
    }
  }

  // The least and the greatest of the values of a card; unless all points are asked for, without those that
  // would flatten all others: farther than 8 times the distance of the quartiles, and 4 times the scale.
  function ends(card) {
    const values = card.curves.flatMap(({ source }) => Array.from(source.data.raw ?? source.data.value));
    const sorted = Float64Array.from(values.filter(Number.isFinite)).sort(), last = sorted.length - 1;
    const low = sorted[Math.round(last / 4)], high = sorted[Math.round((3 * last) / 4)], fence = 8 * (high - low);
    const inside = sorted.filter((value) => value >= low - fence && value <= high + fence);
    const [from, to] = [inside[0], inside[inside.length - 1]];
    const isCut = !all.checked && to > from && sorted[last] - sorted[0] > 4 * (to - from);
    const [start, end] = isCut ? [from, to] : [sorted[0], sorted[last]];
    const margin = (end - start) * 0.05 || Math.abs(end) * 0.05 || 1;
    return { start: start - margin, end: end + margin };
  }

  // Where a curve is not finite any more: its last finite point.
  function lost({ source }) {
    const { step, value } = source.data, first = value.findIndex(Number.isFinite);
    const bad = value.findIndex((one, i) => first >= 0 && i > first && !Number.isFinite(one));
    return bad < 0 ? null : { x: [step[bad - 1]], y: [value[bad - 1]] };
  }

  // The numbers of an axis, in as few letters as tell them apart and place them rightly; the table of runs
  // of `mindsummary view` writes them likewise.
  window.axisTexts = (values) => {
    const most = Math.max(...values.map(Math.abs)), isPlain = most === 0 || (most < 1e5 && most >= 1e-3);
    const gap = values.length > 1 ? Math.abs(values[1] - values[0]) : most;
    const write = (value, digits) => {
      if (value === 0) return "0";
      return isPlain ? value.toFixed(digits) : value.toExponential(digits).replace(/\.?0*e\+?/, "e");
    };
    for (let digits = 0; digits < 15; digits++) {
      const texts = values.map((value) => write(value, digits));
      if (values.every((value, i) => Math.abs(Number(texts[i]) - value) <= gap * 1e-3)) return texts;
    }
    return values.map(String);
  };

  // A figure does not know the page's colours, so its texts get them at every change of the scheme.
  function colourTexts(plot) {
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--soft").trim();
    for (const axis of [...plot.below, ...plot.left]) {
      axis.setv({ axis_label_text_color: colour, major_label_text_color: colour });
    }
  }

  const roots = () => Bokeh.documents.flatMap((one) => one.roots());
  const colourAll = () => roots().forEach(colourTexts);

  // Bokeh draws the figures that Python made when it finds the time.
  async function embedded() {
    const ids = [...document.querySelectorAll("[data-root-id]")].map((element) => element.dataset.rootId);
    while (!ids.every((id) => roots().some((root) => root.id === id))) await new Promise((done) => setTimeout(done, 50));
  }

  function figure(card, scale) {
    const [other] = Object.values(card.plots);
    const plot = Bokeh.Plotting.figure({
      height: 240, sizing_mode: "stretch_width", tools: "xpan,xbox_zoom,reset", toolbar_location: null,
      background_fill_color: null, border_fill_color: null, outline_line_color: null, min_border_right: 12,
      x_axis_label: words.step, y_axis_type: scale, tags: ["curve", scale],
      ...(other ? { x_range: other.x_range } : {}),
      y_range: new Bokeh.Range1d(scale === "log" ? { start: card.low / 1.2, end: card.high * 1.2 } : ends(card)),
    });
    for (const axis of [...plot.below, ...plot.left]) {
      axis.setv({
        formatter: new Bokeh.CustomJSTickFormatter({ code: "return axisTexts(ticks)[index]" }),
        axis_label_text_font_style: "normal", axis_line_color: LINE, major_tick_line_color: LINE, minor_tick_line_color: LINE,
      });
    }
    colourTexts(plot);
    for (const grid of plot.center) grid.grid_line_color = GRID;
    const step = { field: "step" };
    const lines = card.curves.map(({ run, colour: color, source }) => {
      const options = { source, color, name: `run${run}`, visible: isShown(run) };
      if ("alone" in source.data) plot.scatter(step, { field: "alone" }, { ...options, size: 5 });
      return plot.line(step, { field: "value" }, { ...options, line_width: 1.6 });
    });
    for (const { run, colour: color, source } of card.curves) {
      const place = lost({ source }), options = { color, name: `run${run}`, visible: isShown(run) };
      if (place) plot.scatter(place.x, place.y, { ...options, marker: "x", size: 10, line_width: 2 });
    }
    plot.add_tools(new Bokeh.HoverTool({ renderers: lines, mode: "vline", tooltips: tooltips() }));
    return plot;
  }

  async function draw(card) {
    if (!card.curves[0].source) makeSources(card);
    const scale = log.checked && card.high ? "log" : "linear";
    const [first] = Object.values(card.plots);
    const isNew = !(scale in card.plots);
    if (isNew) card.plots[scale] = figure(card, scale);
    for (const [name, plot] of Object.entries(card.plots)) plot.visible = name === scale;
    if (isNew && first) first.document.add_root(card.plots[scale]);
    else if (isNew) await Bokeh.Plotting.show(card.plots[scale], card.element);
  }

  function drawn(card) {
    card.drawn = card.drawn.then(() => draw(card)); // one at a time: Bokeh draws no figure that comes while it draws
    return card.drawn;
  }

  const isShown = (run) => document.querySelector(`[data-run="${run}"]`)?.checked ?? true;

  function showRuns() {
    for (const line of plots().flatMap((plot) => plot.renderers)) line.visible = isShown(line.name.slice("run".length));
  }

  function smooth(source) {
    const share = Number(smoothing.value);
    const raw = source.data.raw ?? source.data.value;
    const shown = Float32Array.from(raw);
    let mean = 0, weight = 0; // an exponential mean without the bias of its start
    shown.forEach((value, index) => {
      if (!Number.isFinite(value)) return;
      mean = share * mean + (1 - share) * value;
      weight = share * weight + (1 - share);
      shown[index] = mean / weight;
    });
    source.data = { ...source.data, raw, value: shown };
  }

  function tooltips() {
    const step = [words.step, "@step{0}"];
    if (isSmooth()) return [step, [words.value, "@raw"], [words.smoothed, "@value"]];
    return [step, [words.value, "@value"]];
  }

  function smoothAll() {
    for (const { source } of cards.flatMap((card) => card.curves)) if (source) smooth(source);
    for (const hover of plots().flatMap((plot) => plot.toolbar.tools).filter((tool) => "tooltips" in tool)) {
      hover.tooltips = tooltips();
    }
  }

  function rescale() {
    for (const card of cards) card.plots.linear?.y_range.setv(ends(card));
  }

  function showTags() {
    const text = filter.value.trim().toLowerCase();
    for (const card of document.querySelectorAll("[data-tag]")) {
      card.hidden = !card.dataset.tag.toLowerCase().includes(text);
    }
  }

  function setRuns(isOn) {
    for (const box of document.querySelectorAll("[data-run]")) box.checked = isOn;
    showRuns();
  }

  scheme.addEventListener("change", colourAll);
  all.addEventListener("change", rescale);
  filter.addEventListener("input", showTags);
  for (const button of document.querySelectorAll("[data-all]")) {
    button.addEventListener("click", () => setRuns(button.dataset.all === "1"));
  }
  for (const box of document.querySelectorAll("[data-run]")) box.addEventListener("change", showRuns);
  smoothing.addEventListener("input", smoothAll);
  log.addEventListener("change", () => cards.filter((card) => card.curves[0].source).forEach(drawn));
  (async () => {
    for (const card of cards) await drawn(card);
    await embedded();
    colourAll();
  })();
})();
