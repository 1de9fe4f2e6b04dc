// The curves, drawn one after the other, and the controls at the top of the page: runs, smoothing, a logarithmic axis.
"use strict";
(function () {
  const TEXT = "#7d858f", LINE = "#7d858f66", GRID = "#7d858f33"; // as in figures.py: they read on a light and on a dark page
  const ARRAYS = { "<i4": Int32Array, "<f4": Float32Array, "<f8": Float64Array };
  const log = document.getElementById("log");
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

  function figure(card, scale) {
    const [other] = Object.values(card.plots);
    const plot = Bokeh.Plotting.figure({
      height: 240, sizing_mode: "stretch_width", tools: "xpan,xbox_zoom,reset", toolbar_location: null,
      background_fill_color: null, border_fill_color: null, outline_line_color: null, min_border_right: 12,
      x_axis_label: "step", y_axis_type: scale, tags: ["curve", scale],
      ...(other ? { x_range: other.x_range } : {}),
      ...(scale === "log" ? { y_range: new Bokeh.Range1d({ start: card.low / 1.2, end: card.high * 1.2 }) } : {}),
    });
    for (const axis of [...plot.below, ...plot.left]) {
      axis.setv({
        axis_label_text_color: TEXT, major_label_text_color: TEXT, axis_label_text_font_style: "normal",
        axis_line_color: LINE, major_tick_line_color: LINE, minor_tick_line_color: LINE,
      });
    }
    for (const grid of plot.center) grid.grid_line_color = GRID;
    const step = { field: "step" };
    const lines = card.curves.map(({ run, colour: color, source }) => {
      const options = { source, color, name: `run${run}`, visible: isShown(run) };
      if ("alone" in source.data) plot.scatter(step, { field: "alone" }, { ...options, size: 5 });
      return plot.line(step, { field: "value" }, { ...options, line_width: 1.6 });
    });
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
    const step = ["step", "@step{0}"];
    return isSmooth() ? [step, ["value", "@raw"], ["smoothed", "@value"]] : [step, ["value", "@value"]];
  }

  function smoothAll() {
    for (const { source } of cards.flatMap((card) => card.curves)) if (source) smooth(source);
    for (const hover of plots().flatMap((plot) => plot.toolbar.tools).filter((tool) => "tooltips" in tool)) {
      hover.tooltips = tooltips();
    }
  }

  for (const box of document.querySelectorAll("[data-run]")) box.addEventListener("change", showRuns);
  smoothing.addEventListener("input", smoothAll);
  log.addEventListener("change", () => cards.filter((card) => card.curves[0].source).forEach(drawn));
  (async () => {
    for (const card of cards) await drawn(card);
  })();
})();
