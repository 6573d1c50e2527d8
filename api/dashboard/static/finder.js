// The box that filters the list: a combobox of what the server suggests for the last token. Without
// scripts it is a field, whose filters the server reads.
"use strict";

(() => {
  const $ = (selector) => document.querySelector(selector);
  const box = $("#q");
  const list = $("#suggestions");
  if (!box) {
    return;
  }
  const options = () => [...list.children];
  // The page that Backspace leads to has the focus here again, for the next filter.
  const AGAIN = "postdate-filter-again";

  const LAST = /(?:[a-z]+:)?(?:"[^"]*|[^\s"]*)$/i; // as in suggestions.py
  let token = ""; // the chosen one, which stays so while others are offered beside it

  function choose(option) {
    token = option?.dataset.token || "";
    options().forEach((each) => { each.ariaSelected = String(each === option); });
    option?.scrollIntoView({ block: "nearest" });
    option ? box.setAttribute("aria-activedescendant", option.id) : box.removeAttribute("aria-activedescendant");
  }

  function show(is) {
    list.hidden = !is;
    box.ariaExpanded = String(is);
    choose();
  }

  // A value with its name is a filter, and applies at once; a name alone waits for its value.
  function take(option) {
    const taken = option.dataset.token;
    box.value = box.value.replace(LAST, () => taken);
    show(false);
    if (taken.endsWith(":")) {
      htmx.trigger(box, "input");
    } else {
      box.form.requestSubmit();
    }
  }

  const chosen = () => options().find((each) => each.ariaSelected === "true");

  function step(by) {
    const all = options();
    const at = all.indexOf(chosen());
    choose(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length]);
  }

  box.addEventListener("keydown", (event) => {
    const last = [...document.querySelectorAll("#filters .chip")].at(-1);
    if (["ArrowDown", "ArrowUp"].includes(event.key) && options().length) {
      event.preventDefault();
      show(true);
      step(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter" && chosen() && !list.hidden) {
      event.preventDefault();
      take(chosen());
    } else if (event.key === "Escape") {
      event.preventDefault();
      list.hidden ? box.blur() : show(false);
    } else if (event.key === "Backspace" && !box.value && last && !event.repeat) {
      sessionStorage.setItem(AGAIN, "1");
      last.click();
    }
  });

  box.addEventListener("blur", () => show(false));
  list.addEventListener("pointerdown", (event) => event.preventDefault()); // the box keeps the focus
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) {
      take(option);
    }
  });

  document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
    if (ctx.target === list && document.activeElement === box) {
      const again = options().find((each) => each.dataset.token === token);
      show(options().length > 0);
      choose(again);
      $("#announced").textContent = `${options().length} suggestions`;
    }
  });

  // Somebody may type before htmx listens.
  document.addEventListener("htmx:after:init", ({ target }) => {
    if (target === box && document.activeElement === box) {
      htmx.trigger(box, "again");
    }
  });

  Object.assign(box, { role: "combobox", ariaAutoComplete: "list" });
  show(false);
  if (sessionStorage.getItem(AGAIN)) {
    sessionStorage.removeItem(AGAIN);
    addEventListener("load", () => box.focus());
  }
})();
