// Elements of the page: found by their id, made with attributes, and changed only where they differ.
const Dom = (() => {
  const $ = (id) => document.getElementById(id);

  function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key in element && key !== "list") element[key] = value;
      else element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  }

  function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  // Give `parent` the elements `wanted`, which have a data-id each. An element that is there stays,
  // with its focus and the text selected in it; of its children only those that differ are replaced.
  function sync(parent, wanted) {
    const present = new Map([...parent.children].map((one) => [one.dataset.id, one]));
    let next = parent.firstElementChild;
    for (const fresh of wanted) {
      const old = present.get(fresh.dataset.id);
      present.delete(fresh.dataset.id);
      if (old) update(old, fresh);
      const element = old ?? fresh;
      if (element === next) next = next.nextElementSibling;
      else parent.insertBefore(element, next);
    }
    for (const gone of present.values()) gone.remove();
  }

  function update(old, fresh) {
    for (const { name, value } of [...fresh.attributes]) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    const children = [...fresh.childNodes];
    children.forEach((child, i) => {
      const there = old.childNodes[i];
      if (!there) old.append(child);
      else if (!there.isEqualNode(child)) there.replaceWith(child);
    });
    while (old.childNodes.length > children.length) old.lastChild.remove();
  }

  function save(name, blob) {
    const link = make("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  // Copy a text; pages that come without TLS from another machine have no clipboard of their own.
  async function copy(text) {
    const isCopied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    if (isCopied) return;
    const box = make("textarea", { value: text, className: "unseen" });
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }

  return { $, make, setText, sync, save, copy };
})();
