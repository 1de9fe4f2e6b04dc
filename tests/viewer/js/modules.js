// Modules of the table of runs, loaded as the browser loads them: one behind the other, in one scope.
"use strict";
const fs = require("node:fs");
const path = require("node:path");

const FOLDER = path.join(__dirname, "../../../mindsummary_lightning/viewer/static/table");

// The modules `names` by the names of their objects, with the globals that they use.
exports.load = (names, globals = {}) => {
  const text = names.map((name) => fs.readFileSync(path.join(FOLDER, `${name}.js`), "utf8")).join("");
  const objects = names.map((name) => name[0].toUpperCase() + name.slice(1));
  return new Function(...Object.keys(globals), `"use strict"; ${text}; return { ${objects} };`)(...Object.values(globals));
};
