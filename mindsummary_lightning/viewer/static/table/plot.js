// The one plot of the page, made once: new points, runs and scales are set into it, so that nothing is lost.
const Plot = (() => {
  const HEIGHT = 340, LEAST_WIDTH = 260, LEAST_DRAG = 6; // pixels
  const X_SPACE = 90, Y_SPACE = 40; // pixels that a tick has
  const MARK = 5; // half the size of a mark, pixels
  const ZOOM = 0.5; // of the range is left by a key
  let library = null, chart = null, box = null, curves = [], series = [], scales = null, options = {}, listeners = {};

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const width = () => Math.max(LEAST_WIDTH, box.clientWidth);
  const offset = () => new Date().getTimezoneOffset() * 60;
  const most = (pixels, space) => Math.max(2, Math.floor(pixels / space));

  function xTicks(plot, _, low, high) {
    const count = most(plot.bbox.width / devicePixelRatio, X_SPACE);
    if (options.axis === "wall") return Points.timeTicks(low, high, count, offset());
    return Points.ticks(low, high, Points.stepOf(low, high, count));
  }

  function yTicks(plot, _, low, high) {
    const count = most(plot.bbox.height / devicePixelRatio, Y_SPACE);
    if (options.isLogarithmic && high - low >= 1) return Points.decades(low, high, count);
    return Points.ticks(low, high, Points.stepOf(low, high, count));
  }

  function times(seconds) {
    const isLong = seconds.length > 1 && seconds.at(-1) - seconds[0] >= 86400;
    const shown = isLong ? [5, 16] : [11, 19];
    return seconds.map((one) => new Date(one * 1000).toLocaleString("sv").slice(...shown));
  }

  const xTexts = (_, values) => (options.axis === "wall" ? times(values) : Numbers.ofAxis(values));

  function yTexts(_, values) {
    if (!options.isLogarithmic) return Numbers.ofAxis(values);
    return values.map((value) => (Number.isInteger(value) ? `1e${value}` : Numbers.ofAxis([10 ** value, 0])[0]));
  }

  // As wide as the longest number.
  function axisSize(plot, texts, at) {
    const axis = plot.axes[at];
    if (!texts?.length) return axis._size ?? 40;
    plot.ctx.font = axis.font[0];
    return Math.ceil(Math.max(...texts.map((text) => plot.ctx.measureText(text).width)) / devicePixelRatio) + 16;
  }

  // The library of the plot; starting it takes 60 ms, in which the first rows are shown.
  const ready = () => (library ??= new Promise((done) => {
    const script = Object.assign(document.createElement("script"), { src: "uPlot.iife.min.js", onload: done, onerror: done });
    document.head.append(script);
  }));

  function make(parent) {
    const line = { stroke: () => style("--line"), width: 1 };
    const axis = { stroke: () => style("--soft"), grid: line, ticks: line, font: "12px system-ui, sans-serif" };
    box = parent;
    chart = new uPlot({
      width: width(), height: HEIGHT, legend: { show: false }, focus: { alpha: 0.4 },
      scales: { x: { time: false, auto: false }, y: { auto: false } },
      axes: [
        { ...axis, splits: xTicks, values: xTexts, size: 34 },
        { ...axis, splits: yTicks, values: yTexts, size: axisSize },
      ],
      cursor: {
        focus: { prox: 24 }, points: { size: 6 },
        drag: { setScale: false, x: true, y: true, uni: 30 },
        bind: { dblclick: () => () => listeners.zoom(null, null) },
      },
      hooks: { setSelect: [select], setCursor: [moved], setSeries: [focused], draw: [drawMarks] },
      series: [{}],
    }, [[]], box);
    new ResizeObserver(() => chart.width !== width() && chart.setSize({ width: width(), height: HEIGHT })).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw(false, true));
    box.addEventListener("keydown", pressed);
  }

  function select(plot) {
    const { left, top, width: across, height: down } = plot.select;
    if (across < LEAST_DRAG && down < LEAST_DRAG) return;
    const isOfAll = (size, all) => size >= all - 1 || size < LEAST_DRAG;
    const x = isOfAll(across, plot.over.clientWidth) ? null : [plot.posToVal(left, "x"), plot.posToVal(left + across, "x")];
    const y = isOfAll(down, plot.over.clientHeight) ? null : [plot.posToVal(top + down, "y"), plot.posToVal(top, "y")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    listeners.zoom(x ?? options.x, y ?? options.y);
  }

  const moved = (plot) => listeners.cursor?.(plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : null);
  const focused = (_, at) => listeners.near?.(at > 0 ? series[at - 1]?.id : null);

  function pressed(event) {
    const [low, high] = scales.x, middle = chart.cursor.left >= 0 ? chart.posToVal(chart.cursor.left, "x") : (low + high) / 2;
    const part = { "+": ZOOM, "=": ZOOM, "-": 1 / ZOOM }[event.key];
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (part) listeners.zoom([middle - (middle - low) * part, middle + (high - middle) * part], options.y);
    else if (event.key === "0" || event.key === "Escape") listeners.zoom(null, null);
    else if (move) step(move, middle);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Move the cursor to the next recorded point.
  function step(direction, from) {
    const [low, high] = scales.x, all = chart.data[0].filter((x) => x >= low && x <= high);
    const isFirst = chart.cursor.left < 0;
    const at = all.reduce((best, x, i) => (Math.abs(x - from) < Math.abs(all[best] - from) ? i : best), 0);
    const to = all[isFirst ? (direction > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + direction))];
    if (to !== undefined) chart.setCursor({ left: chart.valToPos(to, "x"), top: chart.over.clientHeight / 2 });
  }

  // A cross where a curve is not finite any more, a triangle where it leaves the scale.
  function drawMarks(plot) {
    const { ctx } = plot, [low, high] = scales.y, size = MARK * devicePixelRatio;
    const { left, top, width: across, height: down } = plot.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left - size, top - size, across + 2 * size, down + 2 * size);
    ctx.clip();
    for (const curve of curves) {
      ctx.strokeStyle = ctx.fillStyle = curve.line.colour;
      ctx.lineWidth = 2 * devicePixelRatio;
      const place = ([x, y]) => [plot.valToPos(x, "x", true), plot.valToPos(Math.min(high, Math.max(low, y)), "y", true)];
      if (curve.lost) drawCross(ctx, place(curve.lost), size);
      const out = outside(curve);
      if (out) drawTriangle(ctx, place(out), out[1] > high ? -size : size);
    }
    ctx.restore();
  }

  function drawCross(ctx, [x, y], size) {
    ctx.beginPath();
    for (const sign of [1, -1]) {
      ctx.moveTo(x - size, y - sign * size);
      ctx.lineTo(x + size, y + sign * size);
    }
    ctx.stroke();
  }

  function drawTriangle(ctx, [x, y], size) {
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x - size, y - size);
    ctx.lineTo(x + size, y - size);
    ctx.fill();
  }

  // The first point of a curve in sight that is above or below the scale.
  function outside({ xs, shown }) {
    const [left, right] = scales.x, [low, high] = scales.y;
    const at = shown.findIndex((y, i) => y !== null && xs[i] >= left && xs[i] <= right && (y < low || y > high));
    return at < 0 ? null : [xs[at], shown[at]];
  }

  // The ranges of both axes: zoomed into, or that of the points.
  function scalesOf() {
    const ends = (values) => values.reduce(([low, high], x) => [Math.min(low, x), Math.max(high, x)], [Infinity, -Infinity]);
    let x = options.x ?? ends(curves.flatMap(({ xs }) => [xs[0], xs.at(-1)]));
    if (x[0] === x[1]) x = [x[0] - 0.5, x[1] + 0.5];
    const inSight = (values, xs) => values.filter((_, i) => xs[i] >= x[0] && xs[i] <= x[1]);
    const values = curves.flatMap(({ xs, raw, shown }) => inSight(shown, xs).concat(raw === shown ? [] : inSight(raw, xs)));
    return { x, y: options.y ?? Points.rangeOf(values, options) };
  }

  // A line of the plot for each curve, behind it the raw values of one that is smoothed.
  function linesOf(curve) {
    const { id, line } = curve, isSmooth = curve.raw !== curve.shown;
    const points = { show: () => curve.xs.length < 2, fill: line.colour, size: 8 };
    const main = { id, key: `${id}\nshown`, ys: "shown", stroke: line.colour, dash: line.dash, width: 1.6, points };
    const behind = { id, key: `${id}\nraw`, ys: "raw", stroke: `${line.colour}50`, width: 1, points: { show: false } };
    return isSmooth ? [behind, main] : [main];
  }

  function setSeries(wanted) {
    const same = wanted.findIndex((one, i) => series[i]?.key !== one.key);
    const kept = same < 0 ? wanted.length : same;
    for (let at = series.length; at > kept; at--) chart.delSeries(at);
    for (let at = kept; at < wanted.length; at++) chart.addSeries({ ...wanted[at] }, at + 1);
    series = wanted;
  }

  // Draw curves: id, line, xs, raw and shown values (logarithms on a logarithmic scale), and where one is lost.
  function show(parent, newCurves, newOptions, newListeners) {
    [curves, options, listeners] = [newCurves, newOptions, newListeners];
    scales = scalesOf();
    if (!chart) make(parent);
    const ordered = [...curves.map(linesOf)].flat();
    const tables = curves.map(({ xs, raw, shown }) => (raw === shown ? [xs, shown] : [xs, raw, shown]));
    chart.batch(() => {
      setSeries(ordered);
      chart.setData(tables.length ? uPlot.join(tables) : [[]], false);
      for (const [name, [min, max]] of Object.entries(scales)) chart.setScale(name, { min, max });
    });
    chart.redraw(true, true);
    return { outside: curves.filter(outside).length };
  }

  const canvas = () => chart?.ctx.canvas;
  return { ready, show, canvas, scales: () => scales, series: () => series.map(({ id }) => id) };
})();
