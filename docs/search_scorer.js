// How Sphinx orders what it finds: a page whose title answers comes first, then guides, then references; pages in the
// reader's language before the others.
"use strict";

const REFERENCES = /^(reference\/(?!mindspore-|lineage-|mindinsight-|query-|graphs|output-|json|tensorboard)|changelog|development\/|index$|zh\/index$)/;
const QUERY = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase();
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

// Sphinx finds a page that has all words of a query; here one that lacks some is found too, and a rare word counts more,
// one that no page has most. Among the pairs that a Chinese query is cut into, some lie across two words and are in no page.
// A word of a page's main entries of the index counts as one of its title.
const findPages = Search.performTermsSearch;
Search.performTermsSearch = (terms, excluded) => {
  const { docnames, filenames, titles, indexentries } = Search._index;
  const stemmer = new Stemmer(), asked = new Map(), found = new Map();
  for (const [entry, places] of Object.entries(indexentries)) {
    const files = places.filter(([, , isMain]) => isMain).map(([file]) => file);
    for (const word of splitQuery(entry)) {
      const term = stemmer.stemWord(word.toLowerCase());
      asked.set(term, [...(asked.get(term) ?? []), ...files]);
    }
  }
  let total = 0;
  for (const term of new Set([...terms, ...(QUERY.match(/\b\d+\b/g) ?? [])])) { // Sphinx leaves numbers out
    const pages = new Map(findPages(new Set([term]), excluded).map((page) => [page[0], page]));
    for (const file of asked.get(term) ?? []) {
      pages.set(docnames[file], [docnames[file], titles[file], "", null, Scorer.title, filenames[file], "text"]);
    }
    const weight = Math.log2(1 + docnames.length / (pages.size || 1));
    total += weight;
    for (const [name, page] of pages) found.set(name, page.with(4, (found.get(name)?.[4] ?? 0) + page[4] * weight));
  }
  return [...found.values()].map((page) => page.with(4, page[4] / (total || 1)));
};
