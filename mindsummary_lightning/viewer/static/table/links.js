// Links to pages about the ticked runs. A page that compares two runs is one more line.
const Links = (() => {
  const MOST = 999; // runs that MindInsight's pages list

  function encoded(ids) {
    const bytes = new TextEncoder().encode(JSON.stringify(ids));
    const text = btoa(Array.from(bytes, (one) => String.fromCharCode(one)).join(""));
    return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  }

  const difference = ([a, b]) => new URLSearchParams({ a, b, language: Texts.isChinese() ? "zh" : "en" });
  // words, address, least and most runs, whether it is a page of MindInsight's
  const PAGES = [
    { key: "difference", address: (ids) => `v1/mindinsight/comparison?${difference(ids)}`, least: 2, most: 2, isOurs: true },
    { key: "surfaces", address: (ids) => `only/${encoded(ids)}/#/compare-analysis/loss`, least: 1, most: MOST },
    { key: "lineages", address: (ids) => `only/${encoded(ids)}/#/model-traceback`, least: 1, most: MOST },
    { key: "compare", address: (ids) => `only/${encoded(ids)}/#/compare-analysis/scalar`, least: 1, most: MOST },
  ];

  function draw(box, ids, untick) {
    const { make } = Dom, { t } = Texts;
    const hasSurface = ids.some((id) => Table.curves.get(id)?.has_landscape);
    const isFor = ({ key, least, most, isOurs }) =>
      ids.length >= least && ids.length <= most && (isOurs || Cells.HAS_FRONT_END) && (key !== "surfaces" || hasSurface);
    const links = PAGES.filter(isFor).map(({ key, address }) => make("a", { href: address(ids) }, t(key)));
    const drawn = JSON.stringify([Texts.isChinese(), ids, links.length]);
    if (box.dataset.drawn === drawn) return; // a link in it keeps the focus
    box.dataset.drawn = drawn;
    const button = make("button", { type: "button" }, t("untick"));
    button.addEventListener("click", untick);
    const limit = ids.length > MOST ? [make("span", { className: "small" }, t("toomany", MOST))] : [];
    box.replaceChildren(make("span", {}, t("ticked", ids.length)), ...links, ...limit, button);
    box.hidden = !ids.length;
  }

  return { draw, encoded };
})();
