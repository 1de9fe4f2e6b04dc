// Numbers as text: of cells, of axes, and of single values.
const Numbers = (() => {
  const SHORT_FROM = 1e5, SHORT_BELOW = 1e-3; // axes write 1e5 and more, and less than 1e-3, with a power of ten
  const MOST_DIGITS = 15; // that a double tells apart

  // A value of a cell, to six digits.
  function readable(found) {
    if (found === null || found === undefined) return "–";
    if (typeof found === "number" && !Number.isInteger(found)) return String(Number(found.toPrecision(6)));
    return String(found);
  }

  // A recorded value in as many digits as tell it from other 32-bit floats.
  function exact(value) {
    if (value === null || value === undefined) return "–";
    for (let digits = 1; digits < 10; digits++) {
      const text = value.toPrecision(digits);
      if (Math.fround(Number(text)) === Math.fround(value)) return String(Number(text));
    }
    return String(value);
  }

  // The numbers of an axis, in as few letters as tell them apart and place them rightly.
  function ofAxis(values) {
    if (!values.length) return [];
    const most = Math.max(...values.map(Math.abs));
    const isPlain = most === 0 || (most < SHORT_FROM && most >= SHORT_BELOW);
    const gap = values.length > 1 ? Math.abs(values[1] - values[0]) : most;
    const write = (value, digits) => {
      if (value === 0) return "0";
      return isPlain ? value.toFixed(digits) : value.toExponential(digits).replace(/\.?0*e\+?/, "e");
    };
    for (let digits = 0; digits < MOST_DIGITS; digits++) {
      const texts = values.map((value) => write(value, digits));
      if (values.every((value, i) => Math.abs(Number(texts[i]) - value) <= gap * 1e-3)) return texts;
    }
    return values.map(String);
  }

  return { readable, exact, ofAxis };
})();
