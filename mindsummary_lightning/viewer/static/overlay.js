// The curves of the ticked runs over each other, drawn by uPlot: any tag, smoothed, linear or logarithmic, by step or time.
"use strict";
const Overlay = (() => {
  const MOST = 20; // runs that are drawn
  const COLORS = ["#1f77b4", "#d9730d", "#2c974b", "#c93a3a", "#8a63d2", "#a0674b", "#d0569f", "#7a7f87", "#a8a015", "#17a2b8"];
  const answers = new Map(); // points of runs, by tag and train id
  let plot = null, drawn = "";

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

  async function points(ids, tag) {
    const missing = ids.filter((id) => !answers.has(`${tag}\n${id}`));
    if (missing.length) {
      const query = new URLSearchParams([...missing.map((id) => ["train_id", id]), ["tag", `${tag}/scalar`]]);
      const answer = await fetch(`v1/mindinsight/datavisual/scalars?${query}`);
      if (!answer.ok) throw new Error(answer.status);
      for (const id of missing) answers.set(`${tag}\n${id}`, []);
      for (const curve of (await answer.json()).scalars) answers.set(`${tag}\n${curve.train_id.replaceAll("\u2060", "")}`, curve.values);
    }
    return ids.map((id) => answers.get(`${tag}\n${id}`));
  }

  // Draw `tag` of the runs `ids` into `box`; an answer that is late, because something else was asked for since, is dropped.
  async function draw(box, ids, { tag, factor, isLogarithmic, isByTime }, words) {
    const asked = JSON.stringify([ids, tag, factor, isLogarithmic, isByTime, words.empty]);
    if (asked === drawn) return;
    drawn = asked;
    const chosen = ids.slice(0, MOST);
    const curves = tag && chosen.length ? await points(chosen, tag).catch(() => null) : [];
    if (asked !== drawn) return;
    const runs = chosen.map((id, i) => [id, curves?.[i] ?? []]).filter(([, values]) => values.length);
    plot?.destroy();
    plot = null;
    box.replaceChildren(...(runs.length ? [] : [tag ? (curves ? words.empty : words.failed) : ""]));
    if (!runs.length) return;
    const tables = runs.map(([, values]) => {
      const x = values.map((one) => (isByTime ? one.wall_time - values[0].wall_time : one.step));
      const y = smoothed(values.map((one) => one.value), factor).map((one) => (isLogarithmic && one <= 0 ? null : one));
      return [x, y];
    });
    const style = getComputedStyle(document.body), line = { stroke: style.getPropertyValue("--line"), width: 1 }, axis = { stroke: style.color, grid: line, ticks: line };
    plot = new uPlot({
      width: Math.max(280, box.clientWidth - 2), height: 320,
      scales: { x: { time: false }, y: { distr: isLogarithmic ? 3 : 1 } },
      axes: [{ ...axis, label: isByTime ? words.seconds : words.step }, { ...axis, size: 70 }],
      series: [{ label: isByTime ? words.seconds : words.step }, ...runs.map(([id], i) => ({
        label: id.replace(/^\.\/(?=.)/, ""), stroke: COLORS[i % COLORS.length], dash: i < COLORS.length ? [] : [6, 3], width: 1.5, spanGaps: true, points: { show: tables[i][0].length < 2 },
        value: (_, value) => (value === null ? "–" : String(Number(value.toPrecision(5)))),
      }))],
    }, uPlot.join(tables), box);
  }

  window.addEventListener("resize", () => plot?.setSize({ width: Math.max(280, plot.root.parentElement.clientWidth - 2), height: 320 }));
  // A run that grows has other points; what was asked for is asked again.
  const forget = (id) => {
    for (const key of answers.keys()) if (key.endsWith(`\n${id}`)) answers.delete(key);
    drawn = "";
  };
  return { draw, forget };
})();
