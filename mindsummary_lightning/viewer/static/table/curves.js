// The points of curves, asked for once for each tag and run, and what is drawn of them.
const Curves = (() => {
  const MOST = 20; // runs that are drawn
  const answers = new Map(); // points, by tag and train id
  const key = (tag, id) => `${tag}\n${id}`;

  // Ask for what is missing; false if the server does not answer.
  async function load(ids, tag) {
    const missing = ids.filter((id) => !answers.has(key(tag, id)));
    if (!missing.length) return true;
    const query = new URLSearchParams([...missing.map((id) => ["train_id", id]), ["tag", `${tag}/scalar`]]);
    const answer = await fetch(`v1/mindinsight/datavisual/scalars?${query}`).catch(() => null);
    if (!answer?.ok) return false;
    const found = new Map(missing.map((id) => [id, []]));
    for (const curve of (await answer.json()).scalars) found.set(curve.train_id.replaceAll("\u2060", ""), curve.values);
    for (const [id, values] of found) answers.set(key(tag, id), values);
    return true;
  }

  // A run that grows has other points.
  function forget(id) {
    for (const one of answers.keys()) if (one.endsWith(`\n${id}`)) answers.delete(one);
  }

  function places(points, axis) {
    if (axis === "wall") return points.map(({ wall_time }) => wall_time);
    if (axis === "relative") return points.map(({ wall_time }) => wall_time - points[0].wall_time);
    return points.map(({ step }) => step);
  }

  // What is drawn of a run, or null if it has no points of the tag.
  function prepared(id, tag, { factor, isLogarithmic, axis }) {
    const points = answers.get(key(tag, id)) ?? [];
    if (!points.length) return null;
    const values = points.map(({ value }) => value);
    const smooth = factor > 0 ? Points.smoothed(values, factor) : values;
    const scaled = (all) => (isLogarithmic ? all.map((one) => (one > 0 ? Math.log10(one) : null)) : all);
    const raw = scaled(values), shown = factor > 0 ? scaled(smooth) : raw;
    const xs = places(points, axis), bad = Points.firstBad(values);
    const lost = bad > 0 && shown[bad - 1] !== null ? [xs[bad - 1], shown[bad - 1]] : null;
    return { id, line: Colours.lineOf(id), points, values, smooth, xs, raw, shown, lost, badStep: bad < 0 ? null : points[bad].step };
  }

  // The point that is nearest to a place of the x axis; without one, the last.
  function nearest({ xs }, x) {
    if (x === null) return xs.length - 1;
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle;
      else high = middle;
    }
    return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
  }

  return { MOST, load, forget, prepared, nearest };
})();
