// A box with a list that is filtered as one types: of hundreds of tags, four letters find one.
const Tags = (() => {
  const MOST = 200; // that are listed at a time

  // Tags that have the letters in them, those that begin with them, or a part of which does, first.
  function filtered(tags, typed) {
    const text = typed.trim().toLowerCase();
    if (!text) return tags.slice(0, MOST);
    const found = tags.filter((tag) => tag.toLowerCase().includes(text));
    const rank = (tag) => {
      const name = tag.toLowerCase();
      if (name.startsWith(text)) return 0;
      return name.split(/[/._-]/).some((part) => part.startsWith(text)) ? 1 : 2;
    };
    return found.sort((a, b) => rank(a) - rank(b)).slice(0, MOST);
  }

  // Make `input` filter the list in `list`; `choose` is called with a tag, `tags` gives all.
  function attach(input, list, { tags, chosen, choose }) {
    let active = 0, isTyped = false;
    const options = () => [...list.querySelectorAll("[role=option]")];

    function close() {
      list.hidden = true;
      input.ariaExpanded = "false";
      input.removeAttribute("aria-activedescendant");
      isTyped = false;
    }

    function open() {
      const found = filtered(tags(), isTyped ? input.value : "");
      active = isTyped ? 0 : Math.max(0, found.indexOf(chosen()));
      const none = Dom.make("div", { className: "small" }, Texts.t("notag", input.value));
      const items = found.map((tag, i) => Dom.make("div", { role: "option", id: `${list.id}-${i}` }, tag));
      list.replaceChildren(...(items.length ? items : isTyped ? [none] : []));
      list.hidden = !list.childElementCount;
      input.ariaExpanded = String(!list.hidden);
      mark();
    }

    function mark() {
      options().forEach((option, i) => option.setAttribute("aria-selected", i === active));
      const option = options()[active];
      if (option) input.setAttribute("aria-activedescendant", option.id);
      option?.scrollIntoView({ block: "nearest" });
    }

    function take(option) {
      close();
      if (!option) return;
      input.value = option.textContent;
      choose(option.textContent);
    }

    input.addEventListener("focus", () => {
      input.select();
      open();
    });
    input.addEventListener("click", () => list.hidden && open());
    input.addEventListener("blur", () => {
      if (isTyped) input.value = chosen();
      close();
    });
    input.addEventListener("input", () => {
      isTyped = true;
      open();
    });
    input.addEventListener("change", () => tags().includes(input.value) && choose(input.value));
    input.addEventListener("keydown", (event) => {
      const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape" && !list.hidden) {
        input.value = chosen();
        close();
      } else if (event.key === "Enter") {
        take(list.hidden ? null : options()[active]);
      } else if (move) {
        if (list.hidden) open();
        else active = Math.min(options().length - 1, Math.max(0, active + move));
        mark();
      } else {
        return;
      }
      event.preventDefault();
      event.stopPropagation();
    });
    list.addEventListener("mousedown", (event) => {
      event.preventDefault(); // the box keeps the focus until the tag is taken
      const option = event.target.closest("[role=option]");
      if (option) take(option);
    });
  }

  return { filtered, attach };
})();
