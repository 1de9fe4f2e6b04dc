// What can be taken along: tables and curves as CSV, the plot as PNG.
const Saving = (() => {
  const ROW = 18, PAD = 12; // pixels, of the legend in a picture

  // A text that a spreadsheet would take for a formula.
  function isFormula(text) {
    return /^[=+\-@＝＋－＠\t\r\n']/.test(text) && Number.isNaN(Number(text)) && /[^-+.\de ±…–]/.test(text);
  }

  function cell(text) {
    const safe = isFormula(text) ? `'${text}` : text;
    return /[",\r\n]/.test(text) || safe !== text ? `"${safe.replaceAll('"', '""')}"` : text;
  }

  const csv = (lines) => `\ufeff${lines.map((line) => line.map((one) => cell(String(one))).join(",")).join("\n")}\n`;
  const saveCsv = (name, lines) => Dom.save(name, new Blob([csv(lines)], { type: "text/csv" }));

  // Every drawn point: run, tag, step, seconds since the epoch, recorded and smoothed value.
  function curveLines(lines, tag) {
    const points = ({ name, curve }) => curve.points.map(({ step, wall_time, value }, i) =>
      [name, tag, step, wall_time, value === null ? "NaN" : Numbers.exact(value), curve.smooth[i] === null ? "NaN" : Numbers.exact(curve.smooth[i])]);
    return [["run", "tag", "step", "wall_time", "value", "smoothed"], ...lines.flatMap(points)];
  }

  // The plot with its title and legend on the colour of the page.
  function savePng(plot, lines, title) {
    const ratio = devicePixelRatio, style = getComputedStyle(document.body), canvas = document.createElement("canvas");
    canvas.width = plot.width;
    canvas.height = plot.height + (ROW * (lines.length + 1) + 2 * PAD) * ratio;
    const ctx = canvas.getContext("2d");
    ctx.fillStyle = style.backgroundColor;
    ctx.fillRect(0, 0, canvas.width, canvas.height);
    ctx.scale(ratio, ratio);
    ctx.font = "13px system-ui, sans-serif";
    ctx.fillStyle = style.color;
    ctx.fillText(title, PAD, ROW);
    ctx.drawImage(plot, 0, ROW + PAD, plot.width / ratio, plot.height / ratio);
    lines.forEach(({ id, name }, i) => {
      const { colour, dash } = Colours.lineOf(id), y = plot.height / ratio + ROW * (i + 1.5) + PAD;
      ctx.strokeStyle = colour;
      ctx.lineWidth = 3;
      ctx.setLineDash(dash);
      ctx.beginPath();
      ctx.moveTo(PAD, y);
      ctx.lineTo(PAD + 24, y);
      ctx.stroke();
      ctx.fillText(name, PAD + 32, y + 4);
    });
    canvas.toBlob((blob) => Dom.save("curves.png", blob));
  }

  return { isFormula, csv, saveCsv, curveLines, savePng };
})();
