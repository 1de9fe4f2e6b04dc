// How Sphinx orders what it finds: a page whose title answers comes first, then guides, then references; pages in the
// reader's language before the others.
"use strict";

const REFERENCES = /^(reference\/|file-format|changelog|contributing|performance|index$|zh\/index$)/;
const QUERY = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase();
const WORDS = ` ${QUERY.replace(/[\u4e00-\u9fff]+/g, " $& ")} `;
const isChinese = /[\u4e00-\u9fff]/.test(QUERY) || navigator.language.startsWith("zh");

var Scorer = {
  score: ([docname, , anchor, , score]) =>
    score * (REFERENCES.test(docname) ? 0.3 : 1) * (anchor ? 0.8 : 1) * (docname.startsWith("zh/") === isChinese ? 1 : 0.5),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 25,
  partialTitle: 12,
  term: 5,
  partialTerm: 2,
};

// Sphinx finds a page that has all words of a query; here one that lacks some is found too, and a rare word counts more.
// Among the pairs that a Chinese query is cut into, some lie across two words and are in no page. An entry of the index
// counts within a longer query, too.
const findPages = Search.performTermsSearch;
Search.performTermsSearch = (terms, excluded) => {
  const found = new Map();
  let total = 0;
  for (const term of terms) {
    const pages = findPages(new Set([term]), excluded);
    const weight = pages.length && Math.log2(1 + Search._index.docnames.length / pages.length);
    total += weight;
    for (const page of pages) found.set(page[0], page.with(4, (found.get(page[0])?.[4] ?? 0) + page[4] * weight));
  }
  const { docnames, filenames, titles, indexentries } = Search._index;
  for (const [entry, places] of Object.entries(indexentries)) {
    const isInside = /[\u4e00-\u9fff]/.test(entry) ? QUERY.includes(entry) : WORDS.includes(` ${entry} `);
    if (!isInside || entry === QUERY) continue;
    for (const [file] of places) {
      const page = found.get(docnames[file]) ?? [docnames[file], titles[file], "", null, 0, filenames[file], "text"];
      found.set(page[0], page.with(4, page[4] + (25 * total * entry.length) / QUERY.length));
    }
  }
  return [...found.values()].map((page) => page.with(4, page[4] / (total || 1)));
};
