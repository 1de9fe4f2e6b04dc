// What summary files say of the runs in sight: asked for some runs at a time, and again as they grow.
const Facts = (() => {
  const TOGETHER = 500, DRAW_MS = 1000;
  const { curves } = Table;
  const outdated = new Set(); // train ids of runs that may have grown since
  let wanted = [], isReading = false;

  const scalarTags = () => [...new Set((Address.state.cols ?? []).map((name) => Table.SCALAR.exec(name)?.[2]).filter(Boolean))];
  const isUnread = (id) => !curves.has(id) || outdated.has(id) || scalarTags().some((tag) => !Object.hasOwn(curves.get(id).scalars ?? {}, tag));

  function ask(ids, draw, done) {
    const queued = new Set(wanted);
    for (const id of ids) if (!queued.has(id) && isUnread(id)) wanted.push(id);
    if (!isReading && wanted.length) read(draw, done);
  }

  function keep(id, facts, asked) {
    facts.scalars = { ...Object.fromEntries(asked.map((tag) => [tag, null])), ...facts.scalars };
    if (curves.has(id) && curves.get(id).written !== facts.written) Curves.forget(id);
    curves.set(id, facts);
    outdated.delete(id);
  }

  async function read(draw, done) {
    isReading = true;
    let drawn = performance.now();
    while (wanted.length) {
      const asked = scalarTags();
      const answer = await Search.post("curves", { train_ids: wanted.slice(0, TOGETHER), tags: asked });
      if (!answer) break;
      const found = Object.entries(answer.curves);
      // A name that comes back as another has no curve; it would be asked for without end.
      if (!found.some(([id]) => wanted.includes(id))) found.push(...wanted.slice(0, TOGETHER).map((id) => [id, {}]));
      for (const [id, facts] of found) keep(id, facts, asked);
      wanted = wanted.filter(isUnread);
      if (wanted.length && performance.now() - drawn < DRAW_MS) continue;
      drawn = performance.now();
      draw();
    }
    wanted = [];
    isReading = false;
    done();
  }

  // Runs that grow, and those in sight that were written since, are to be read again.
  function expectGrowth(rows) {
    for (const [id, facts] of curves) if (facts.is_growing !== false) outdated.add(id);
    for (const row of rows) {
      if (Table.get().written[row] > (Table.factsOf(row).written ?? 0) + 1) outdated.add(Table.idOf(row));
    }
  }

  return { ask, expectGrowth, waiting: () => wanted.length, isReading: () => isReading };
})();
