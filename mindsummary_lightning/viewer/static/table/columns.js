// Which columns are shown if nobody has chosen any, and which direction a click sorts by first.
const Columns = (() => {
  const SETTINGS = 8; // columns of settings
  const HIDDEN = /path$|^dataset_mark$|^status$|_version$/; // of these none
  const LOWER_IS_BETTER = new Set([
    "loss", "nll", "error", "err", "mae", "mse", "rmse", "mape", "perplexity", "ppl", "wer", "cer", "eer", "fid",
    "lpips", "bpb", "bpc",
  ]);
  const isMetric = (name) => name.startsWith("metric/");

  let known = {}; // columns of the same table and rows, which are asked for several times

  // A result and the settings that differ, of the rows that are found; of one row alone those of all.
  function usual(table, found, bare) {
    if (known.table !== table || known.found !== found) known = { table, found, names: chosen(table, found, bare) };
    return known.names;
  }

  function chosen({ columns, same }, found, bare) {
    const all = Object.values(columns)[0]?.map((_, row) => row) ?? [];
    const rows = found.length > 1 ? found : all;
    const present = new Map();
    const differing = new Set();
    for (const [name, values] of Object.entries(columns)) {
      let count = 0, first = null, differs = false; // one pass: there may be 10,000 rows
      for (const row of rows) {
        const value = values[row];
        if (value === null) continue;
        if (count === 0) first = value;
        count += 1;
        differs ||= value !== first;
      }
      if (count) present.set(name, count);
      if (differs) differing.add(name);
    }
    const depth = (name) => name.split("/").length;
    const names = [...present.keys()].sort((a, b) => present.get(b) - present.get(a) || depth(a) - depth(b));
    const metric = names.find(isMetric) ?? Object.keys(same).find(isMetric);
    const shown = [];
    for (const name of names) {
      if (shown.length === SETTINGS) break;
      if (isMetric(name) || HIDDEN.test(name) || !differing.has(name)) continue;
      // a nested one that repeats another, as an optimizer's lr the learning rate, is left out
      const repeats = (one) => bare(name).includes("/") && rows.every((row) => columns[one][row] === columns[name][row]);
      if (!shown.some(repeats)) shown.push(name);
    }
    return [...(metric ? [metric] : []), ...shown];
  }

  // Whether smaller values are better, judged by the name, as the server judges.
  function isLowerBetter(name) {
    const words = name.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase().match(/[a-z]+/g) ?? [];
    return words.some((word) => LOWER_IS_BETTER.has(word) || word.endsWith("loss") || word.endsWith("error"));
  }

  // Whether the first click on a column sorts from the greatest on: of a result, the better end comes first.
  function startsDescending(name) {
    const [, statistic, tag] = Table.SCALAR.exec(name) ?? [];
    if (statistic === "min") return false;
    if (statistic === "max") return true;
    const result = isMetric(name) ? name.slice("metric/".length) : statistic === "last" ? tag : null;
    return result !== null && !isLowerBetter(result);
  }

  return { usual, isLowerBetter, startsDescending, isMetric };
})();
