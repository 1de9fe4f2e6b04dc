// The runs as the server lists them, what their summary files say, and the values of cells.
const Table = (() => {
  const FIXED = ["run", "written", "status", "curve", "steps"]; // columns that are shown at first
  const OF_FILES = ["diverged", "started", "duration", "pace"]; // of summary files, as steps and curve are
  const SCALAR = /^(last|min|max|best_step):(.+)$/s; // a column of any scalar
  const STATISTICS = ["last", "min", "max", "best_step"];
  // for a column of these the files of all runs are read
  const IS_READ = /^(steps|curve|diverged|started|duration|pace)$|^(last|min|max|best_step):/;
  const has = Object.hasOwn; // an address may name anything, `constructor` too
  const curves = new Map(); // of runs that were read, by train id
  let table = { unread: 0, train_ids: [], runs: [], written: [], columns: {}, same: {} };

  const get = () => table;
  function set(answer) {
    table = { ...answer, runs: answer.train_ids.map((id) => answer.other_names[id] ?? id.replace(/^\.\//, "")) };
  }

  const idOf = (row) => table.train_ids[row];
  const factsOf = (row) => curves.get(idOf(row)) ?? {};

  function scalarValue(row, [, statistic, tag]) {
    return factsOf(row).scalars?.[tag]?.[STATISTICS.indexOf(statistic)] ?? null;
  }

  function value(row, name) {
    if (name === "run") return table.runs[row];
    if (name === "summary_dir") return idOf(row);
    if (name === "written") return factsOf(row).written ?? table.written[row];
    if (name === "steps") return factsOf(row).steps ?? null;
    if (name === "curve") return factsOf(row).loss ?? null;
    if (OF_FILES.includes(name)) return factsOf(row)[name] ?? null;
    const scalar = SCALAR.exec(name);
    if (scalar) return scalarValue(row, scalar);
    if (has(table.columns, name)) return table.columns[name][row];
    return has(table.same, name) ? table.same[name] : null;
  }

  const isFixed = (name) => FIXED.includes(name) || OF_FILES.includes(name);
  const known = (name) => has(table.columns, name) || has(table.same, name) || isFixed(name) || SCALAR.test(name) || name === "summary_dir";
  const bare = (name) => name.replace(/^(metric|user_defined)\//, "");

  function label(name) {
    const scalar = SCALAR.exec(name);
    if (scalar) return Texts.t(scalar[1], scalar[2]);
    if (isFixed(name) || name === "remark") return Texts.t(name);
    return Texts.chinese(bare(name));
  }

  const tagsOf = (ids) => [...new Set(ids.flatMap((id) => curves.get(id)?.tags ?? []))].sort();

  return { FIXED, OF_FILES, SCALAR, IS_READ, curves, get, set, idOf, factsOf, value, known, isFixed, bare, label, tagsOf };
})();
