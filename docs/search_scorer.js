// How Sphinx orders what it finds: a page whose title answers comes first, then guides, then references.
"use strict";

const REFERENCES = /^(reference\/|file-format|changelog|contributing|performance|index$|zh\/index$)/;

var Scorer = {
  score: ([docname, , anchor, , score]) => score * (REFERENCES.test(docname) ? 0.3 : 1) * (anchor ? 0.8 : 1),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 25,
  partialTitle: 12,
  term: 5,
  partialTerm: 2,
};
