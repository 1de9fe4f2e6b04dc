// What is drawn of curves: smoothed values, the range of an axis, the places where a curve is not finite.
const Points = (() => {
  const FENCE = 8; // times the distance of the quartiles: values farther out are left out of the scale
  const STRETCH = 4; // times as long must the scale be with them
  const MARGIN = 0.05; // of the range, above and below

  // The mean of the points before, each weighing `factor` times its successor, as MindInsight smooths.
  function smoothed(values, factor) {
    let last = 0, weight = 0;
    return values.map((value) => {
      if (value === null) return null;
      last = last * factor + (1 - factor) * value;
      weight = weight * factor + 1 - factor;
      return last / weight;
    });
  }

  // The least and the greatest of the values, which are sorted, without those that would flatten all others.
  function withoutOutliers(sorted) {
    const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
    const low = at(0.25), high = at(0.75), fence = FENCE * (high - low);
    const inside = sorted.filter((value) => value >= low - fence && value <= high + fence);
    const [from, to] = [inside[0], inside.at(-1)];
    const isWorthwhile = sorted.at(-1) - sorted[0] > STRETCH * (to - from);
    return isWorthwhile && to > from ? [from, to] : [sorted[0], sorted.at(-1)];
  }

  // The range of a linear axis for values of curves, or that of a logarithmic one for their logarithms.
  function rangeOf(values, { isAll, isLogarithmic }) {
    const sorted = Float64Array.from(values.filter((value) => value !== null)).sort();
    if (!sorted.length) return [0, 1];
    let [low, high] = isAll ? [sorted[0], sorted.at(-1)] : withoutOutliers([...sorted]);
    if (isLogarithmic) return low === high ? [Math.floor(low), Math.floor(low) + 1] : [Math.floor(low), Math.ceil(high)];
    const margin = (high - low) * MARGIN || Math.abs(high) * MARGIN || 1;
    return [low - margin, high + margin];
  }

  // The index of the first value that is not finite behind one that is; -1 if there is none.
  function firstBad(values) {
    const start = values.findIndex((value) => value !== null);
    return start < 0 ? -1 : values.findIndex((value, i) => i > start && value === null);
  }

  // Steps of an axis: 1, 2 or 5 times a power of ten, as large as floats are.
  const STEPS = [];
  for (let power = -45; power < 39; power++) for (const digit of [1, 2, 5]) STEPS.push(Number(`${digit}e${power}`));

  // The least step with at most `most` ticks in a range.
  const stepOf = (low, high, most) => STEPS.find((step) => step >= (high - low) / Math.max(1, most)) ?? high - low;

  function ticks(low, high, step) {
    const found = [];
    for (let number = Math.ceil(low / step - 1e-9); number * step <= high * (1 + 1e-12) + 1e-9 * step; number++) {
      found.push(Number((number * step).toPrecision(12)));
      if (found.length > 100) break; // a range that is too narrow for doubles
    }
    return found;
  }

  // Powers of ten between two logarithms, every so many that at most `most` are left.
  function decades(low, high, most = 8) {
    const every = Math.max(1, Math.ceil((Math.ceil(high) - Math.floor(low)) / most));
    return ticks(Math.ceil(low / every) * every, high, every);
  }

    const TIMES = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000,
  ]; // seconds between two ticks of an axis of time

  // Round times of day between two times, seconds since the epoch, of a zone so many seconds before UTC.
  function timeTicks(low, high, most, zone) {
    const step = TIMES.find((one) => one >= (high - low) / Math.max(1, most)) ?? 10 * TIMES.at(-1);
    return ticks(low - zone, high - zone, step).map((time) => time + zone);
  }

  return { smoothed, rangeOf, firstBad, stepOf, ticks, timeTicks, decades };
})();
