// The controls at the top of the page: which runs are shown, smoothing, a logarithmic axis.
"use strict";
(function () {
  const curves = () => Bokeh.documents.flatMap((doc) => doc.roots()).filter((plot) => plot.tags.includes("curve"));

  function showRuns() {
    for (const box of document.querySelectorAll("[data-run]")) {
      for (const plot of curves()) {
        for (const line of plot.renderers) {
          if (line.name === "run" + box.dataset.run) line.visible = box.checked;
        }
      }
    }
  }

  function smooth() {
    const share = Number(document.getElementById("smoothing").value);
    for (const source of new Set(curves().flatMap((plot) => plot.renderers.map((line) => line.data_source)))) {
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
    for (const hover of curves().flatMap((plot) => plot.toolbar.tools).filter((tool) => "tooltips" in tool)) {
      hover.tooltips = [["step", "@step{0}"], ["value", "@raw"], ["smoothed", "@value"]];
    }
  }

  function scale() {
    const log = document.getElementById("log").checked;
    const plots = curves();
    for (const card of document.querySelectorAll("[data-curves]")) {
      const ids = card.dataset.curves.split(" ");
      for (const plot of plots.filter((found) => ids.includes(found.id))) {
        plot.visible = ids.length === 1 || plot.tags.includes(log ? "log" : "linear");
      }
    }
  }

  for (const box of document.querySelectorAll("[data-run]")) box.addEventListener("change", showRuns);
  document.getElementById("smoothing").addEventListener("input", smooth);
  document.getElementById("log").addEventListener("change", scale);
})();
