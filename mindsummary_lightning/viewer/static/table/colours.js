// The line of a run, colour and dashes: the same in its row, in the legend and in the plot, whatever else is ticked.
const Colours = (() => {
  // Twelve that are told apart and have a contrast of 3 with a white and with a dark page.
  const COLOURS = [
    "#2f7ed8", "#d2691e", "#2e9e4f", "#d64550", "#8a6fdf", "#a0724a",
    "#d05aa8", "#7d8590", "#94901a", "#1699a8", "#e0573e", "#5b8c3a",
  ];
  const DASHES = [[], [8, 4], [2, 3]];
  const numbers = new Map(); // of lines, by train id

  // Take the numbers that the server gave the runs in the order in which they began, so that runs that
  // follow each other have different lines, and a new run changes no line. What is drawn stays as it is.
  function assign(ids, lines) {
    ids.forEach((id, i) => !numbers.has(id) && numbers.set(id, lines[i]));
  }

  function lineOf(id) {
    const number = numbers.get(id) ?? 0;
    const colour = COLOURS[number % COLOURS.length];
    return { colour, dash: DASHES[Math.floor(number / COLOURS.length) % DASHES.length] };
  }

  // A piece of the line, for rows and legends.
  function chip(id) {
    const { colour, dash } = lineOf(id), space = "http://www.w3.org/2000/svg";
    const picture = document.createElementNS(space, "svg"), line = document.createElementNS(space, "line");
    const size = { width: 22, height: 10, class: "chip", "aria-hidden": "true" };
    const stroke = { x1: 0, x2: 22, y1: 5, y2: 5, stroke: colour, "stroke-width": 4, "stroke-dasharray": dash.join(" ") };
    for (const [key, value] of Object.entries(size)) picture.setAttribute(key, value);
    for (const [key, value] of Object.entries(stroke)) line.setAttribute(key, value);
    picture.append(line);
    return picture;
  }

  return { COLOURS, assign, lineOf, chip };
})();
