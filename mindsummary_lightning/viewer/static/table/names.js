// Names of runs, shortened where there is no room.
const Names = (() => {
  const WORTHWHILE = 8; // letters of a common beginning that are worth leaving out

  // How many letters all names begin with.
  function commonStart(names) {
    if (names.length < 2) return 0;
    let length = names[0].length;
    for (const name of names) {
      let at = 0;
      while (at < length && name[at] === names[0][at]) at += 1;
      length = at;
    }
    return length;
  }

  // At most `longest` letters of a name, of which all names share the first `common`.
  function shortened(name, longest, common = 0) {
    if (name.length <= longest) return name;
    const half = Math.floor(longest / 2);
    if (common < WORTHWHILE) return `${name.slice(0, half)}…${name.slice(-half)}`;
    const rest = name.slice(Math.min(common, name.length - half));
    return `…${rest.length <= longest ? rest : shortened(rest, longest)}`;
  }

  return { commonStart, shortened };
})();
