// A row for each value of a setting: how many runs have it, and their results.
const Groups = (() => {
  const { make } = Dom, { readable } = Numbers;
  const LEFT_OUT = ["steps", "curve", "started"];

  function resultsOf(columns, group) {
    const isResult = (name) => /^metric\/|^loss$/.test(name) || Table.IS_READ.test(name);
    return columns.filter((name) => name !== group && isResult(name) && !LEFT_OUT.includes(name));
  }

  function statistics(numbers) {
    const mean = numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
    const squares = numbers.reduce((sum, number) => sum + (number - mean) ** 2, 0);
    const deviation = numbers.length > 1 ? Math.sqrt(squares / (numbers.length - 1)) : null;
    const least = numbers.reduce((a, b) => Math.min(a, b)), greatest = numbers.reduce((a, b) => Math.max(a, b));
    return { mean, deviation, least, greatest };
  }

  function cellsOf(numbers) {
    if (!numbers.length) return ["–", "–"];
    const { mean, deviation, least, greatest } = statistics(numbers);
    const spread = deviation === null ? "–" : readable(Number(deviation.toPrecision(2)));
    return [`${readable(mean)} ± ${spread}`, `${readable(least)} … ${readable(greatest)}`];
  }

  function lines(order, columns, group) {
    const results = resultsOf(columns, group), groups = new Map();
    for (const row of order) {
      const value = Table.value(row, group);
      if (!groups.has(value)) groups.set(value, []);
      groups.get(value).push(row);
    }
    const text = new Intl.Collator(undefined, { numeric: true });
    const sorted = [...groups].sort(([a], [b]) => (a === null) - (b === null) || text.compare(String(a), String(b)));
    const numbers = (rows, name) => rows.map((row) => Table.value(row, name)).filter((one) => typeof one === "number");
    return sorted.map(([value, rows]) => {
      const texts = [String(rows.length), ...results.flatMap((name) => cellsOf(numbers(rows, name)))];
      const name = make("td", { className: "name", role: "rowheader" }, readable(value));
      const line = make("tr", {}, make("td"), name, ...texts.map((one) => make("td", { className: "number" }, one)));
      line.dataset.id = `group ${String(value)}`;
      return line;
    });
  }

  function heads(columns, group) {
    const { t } = Texts, { label } = Table;
    const results = resultsOf(columns, group).flatMap((name) => [t("mean", label(name)), t("best", label(name))]);
    const texts = [label(group), t("number"), ...results];
    return [make("td"), ...texts.map((text, i) => make("th", { className: i ? "number" : "", scope: "col" }, text))];
  }

  return { lines, heads, statistics };
})();
