// The plot beside the list: its controls, the curves of the ticked runs, the legend, and what it says about its limits.
const Panel = (() => {
  const { $, setText } = Dom, { t } = Texts, { state } = Address;
  let ids = [], lines = [], x = null, turn = 0, changed = () => {};

  const nameOf = (id) => Table.get().runs[Table.get().train_ids.indexOf(id)] ?? id;
  const tag = () => state.over || ids.map((id) => Table.curves.get(id)?.tag).find(Boolean) || Table.tagsOf(ids)[0] || "";
  const isDiverged = (id) => Boolean(Table.curves.get(id)?.diverged);

  function tags() {
    const ofTicked = Table.tagsOf(ids);
    return ofTicked.length ? ofTicked : Table.tagsOf([...Table.curves.keys()]);
  }

  // Draw what is ticked; an answer that is late, because something else was asked for since, is dropped.
  async function draw(ticked = ids) {
    ids = ticked;
    const mine = ++turn, asked = tag();
    $("invite").hidden = ids.length > 0;
    $("drawing").hidden = !ids.length;
    if (document.activeElement !== $("over")) $("over").value = asked;
    if (!ids.length || !asked) return;
    const chosen = ids.slice(0, Curves.MOST);
    const [isAnswered] = await Promise.all([Curves.load(chosen, asked), Plot.ready()]);
    if (mine !== turn) return;
    const options = { factor: state.smooth, isLogarithmic: state.log, axis: state.axis };
    const isShown = (id) => !state.off.has(id) && !(state.hide && isDiverged(id));
    const having = chosen.map((id) => [id, Curves.prepared(id, asked, options)]).filter(([, curve]) => curve);
    lines = having.map(([id, curve]) => ({ id, name: nameOf(id), curve: isShown(id) ? curve : null, isOff: !isShown(id) }));
    drawPlot(asked, isAnswered);
  }

  function drawPlot(asked, isAnswered) {
    const curves = lines.map(({ curve }) => curve).filter(Boolean);
    const view = { axis: state.axis, isLogarithmic: state.log, isAll: state.all, x: Address.range("x"), y: Address.range("y") };
    $("plot").hidden = $("legend").hidden = !lines.length;
    let outside = 0;
    if (lines.length) ({ outside } = Plot.show($("plot"), curves, view, { zoom, cursor, near }));
    if (curves.length) $("plot").dataset.range = JSON.stringify(Plot.scales());
    $("plot").ariaLabel = t("plot", asked, curves.length);
    Legend.draw($("legend"), lines, x, state.smooth > 0);
    setText($("xlabel"), t(state.axis));
    drawNotices(asked, isAnswered, outside);
  }

  function drawNotices(asked, isAnswered, outside) {
    const said = [];
    if (!isAnswered) said.push(t("failed"));
    else if (!lines.length) said.push(t("empty"));
    if (ids.length > Curves.MOST) said.push(t("most", Curves.MOST, ids.length));
    if (outside) said.push(t("outside", outside));
    setText($("notice"), said.join(" "));
    const diverged = ids.filter(isDiverged).length;
    $("hide").hidden = !diverged;
    setText($("hide"), t(state.hide ? "diverged_show" : "diverged_hide", diverged));
    $("hide").ariaPressed = String(state.hide);
    $("reset").hidden = !state.x && !state.y;
  }

  function zoom(newX, newY) {
    Address.setRange("x", newX);
    Address.setRange("y", newY);
    changed();
    draw();
  }

  function cursor(place) {
    x = place;
    Legend.soon($("legend"), lines, x, state.smooth > 0);
  }

  // The run whose curve is near the pointer is marked in the legend and in the list.
  function near(id) {
    Legend.mark($("legend"), id);
    for (const row of $("grid").tBodies[0].rows) row.classList.toggle("near", row.dataset.id === id);
  }

  const drawn = () => lines.filter(({ curve }) => curve);

  function choose(name) {
    state.over = name;
    Address.setRange("y", null); // another tag has other values
    changed();
    draw();
  }

  // What a change of a control does to the zoom: ranges of another axis would mean nothing.
  function controlled(name, value) {
    state[name] = value;
    if (name === "log" || name === "all") Address.setRange("y", null);
    if (name === "axis") Address.setRange("x", null);
    changed();
    draw();
  }

  function attach(onChange) {
    changed = onChange;
    Tags.attach($("over"), $("taglist"), { tags, chosen: tag, choose });
    for (const id of ["log", "all"]) $(id).addEventListener("change", () => controlled(id, $(id).checked));
    $("smooth").addEventListener("input", () => controlled("smooth", Number($("smooth").value)));
    $("axis").addEventListener("change", () => controlled("axis", $("axis").value));
    $("hide").addEventListener("click", () => controlled("hide", !state.hide));
    $("reset").addEventListener("click", () => {
      zoom(null, null);
      $("plot").focus();
    });
    $("plotcsv").addEventListener("click", () => Saving.saveCsv("curves.csv", Saving.curveLines(drawn(), tag())));
    $("png").addEventListener("click", () => Saving.savePng(Plot.canvas(), drawn(), tag()));
    $("legend").addEventListener("change", (event) => {
      const { id } = event.target.closest("tr").dataset;
      if (event.target.checked) {
        state.off.delete(id);
        if (isDiverged(id)) state.hide = false;
      } else {
        state.off.add(id);
      }
      changed();
      draw();
    });
  }

  function showState() {
    for (const id of ["smooth", "axis"]) $(id).value = state[id];
    for (const id of ["log", "all"]) $(id).checked = state[id];
  }

  function drawWords() {
    for (const id of ["smooth", "log", "all", "axis"]) setText($(id).parentElement.querySelector("span"), t(id));
    for (const option of $("axis").options) setText(option, t(option.value));
    for (const id of ["reset", "png", "plotcsv", "invite"]) setText($(id), t(id));
    $("over").placeholder = $("over").ariaLabel = $("taglist").ariaLabel = t("tag");
    $("panel").ariaLabel = t("curves");
    setText($("legendname"), t("legend"));
  }

  return { attach, draw, drawWords, showState };
})();
