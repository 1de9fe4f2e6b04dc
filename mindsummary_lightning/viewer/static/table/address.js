// The state of the page, which its address holds: who opens the address sees the same.
const Address = (() => {
  const DEFAULTS = {
    q: "", sort: "", desc: false, page: 1, size: 50, group: "",
    over: "", smooth: 0, log: false, axis: "step", all: false, hide: false, x: "", y: "",
  };
  const SIZES = [20, 50, 100, 500], AXES = ["step", "relative", "wall"];
  const state = { ...DEFAULTS, cols: null, ticked: new Set(), off: new Set() };

  function parsed(text, plain) {
    if (text === null) return plain;
    return { boolean: text !== "0", number: Number(text) || plain, string: text }[typeof plain];
  }

  function read(hash) {
    const found = new URLSearchParams(hash.slice(1));
    for (const [name, plain] of Object.entries(DEFAULTS)) state[name] = parsed(found.get(name), plain);
    state.page = Math.max(1, Math.floor(state.page));
    if (!SIZES.includes(state.size)) state.size = DEFAULTS.size;
    if (!AXES.includes(state.axis)) state.axis = DEFAULTS.axis;
    state.smooth = Math.min(0.99, Math.max(0, state.smooth));
    state.cols = found.has("col") ? found.getAll("col") : null;
    state.ticked = new Set(found.getAll("tick"));
    state.off = new Set(found.getAll("off"));
  }

  function text() {
    const address = new URLSearchParams();
    for (const [name, plain] of Object.entries(DEFAULTS)) {
      if (state[name] !== plain) address.set(name, state[name] === true ? 1 : state[name]);
    }
    for (const name of state.cols ?? []) address.append("col", name);
    for (const id of state.ticked) address.append("tick", id);
    for (const id of state.off) if (state.ticked.has(id)) address.append("off", id);
    return address.size ? `#${address}` : "";
  }

  function write() {
    history.replaceState(null, "", text() || location.pathname + location.search);
  }

  // A range of an axis that was zoomed into: two numbers, or null.
  function range(name) {
    const [low, high] = state[name].split(",").map(Number);
    return state[name] && Number.isFinite(low) && low < high ? [low, high] : null;
  }

  function setRange(name, ends) {
    state[name] = ends ? ends.map((end) => Number(end.toPrecision(12))).join(",") : "";
  }

  return { DEFAULTS, state, read, text, write, range, setRange };
})();
