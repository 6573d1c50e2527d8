// What news of a page keep, rows that stand still under the viewer, what is ticked, and the side panel.
"use strict";

(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

  // --- News keep open tables, and the key of a form: its repeat after a lost answer is done once ---

  const KEPT = { checked: 'input[type="checkbox"]', open: "details", value: 'input[name="once"]' };
  let morph;

  htmx.registerExtension("kept", {
    init: (api) => { morph = api.morph; },
    htmx_before_morph_attr: (node, { attrName }) => !(KEPT[attrName] && node.matches(KEPT[attrName])),
    htmx_before_morph_node: (node, { newNode }) => !stoodStill(node, newNode),
  });

  // --- Rows stand still while they are pointed at, ticked, or scrolled away from their top -------

  let letGo = false;
  const hovers = matchMedia("(hover: hover)"); // a finger that has gone leaves its :hover behind

  function isHeld(list) {
    return !letGo && (Boolean($(".pick:checked", list)) || (hovers.matches && list.matches(":hover")) || list.getBoundingClientRect().top < 0);
  }

  function say(words) {
    const pill = $("#fresh");
    if (pill) {
      pill.textContent = words;
      pill.hidden = !words;
    }
  }

  // Whether these news wait: each row then changes in its place, and a button says what is new.
  function stoodStill(list, news) {
    if (!list.matches?.("[data-still]")) {
      return false;
    }
    if (!isHeld(list)) {
      say("");
      return false;
    }
    const coming = $$("tr[id]", news);
    const known = coming.filter((row) => document.getElementById(row.id));
    known.forEach((row) => {
      const fragment = new DocumentFragment();
      fragment.append(row.cloneNode(true));
      morph(document.getElementById(row.id), fragment);
    });
    const fresh = coming.length - known.length;
    say(fresh ? `↑ ${fresh} new` : known.length < $$("tr[id]", list).length ? "↑ List changed" : "");
    return true;
  }

  document.addEventListener("click", (event) => {
    const list = event.target.id === "fresh" && $("#list");
    if (list) {
      letGo = true;
      if (list.getBoundingClientRect().top < 0) {
        list.scrollIntoView();
      }
      htmx.trigger("#live", "live");
    }
  });

  // --- What is ticked stays so when its row leaves -----------------------------------------------

  let ticked = [];
  const gone = () => $$("#picked input.gone");

  function keepTicks() {
    const form = $("#picked");
    for (const value of form ? ticked : []) {
      const box = $(`.pick[value="${value}"]`);
      const kept = gone().find((each) => each.value === value);
      if (box) {
        box.checked = true;
        kept?.remove();
      } else if (!kept) {
        form.append(Object.assign(document.createElement("input"), { type: "hidden", className: "gone", name: "id", value }));
      }
    }
    ticked = [];
  }

  function count() {
    const boxes = $$(".pick");
    const picked = boxes.filter((each) => each.checked).length;
    const away = gone().length;
    const bar = $("#picked");
    if (bar) {
      bar.hidden = picked + away === 0;
      $("[data-picked]").textContent = picked + away;
      $("[data-gone]").textContent = away ? `, ${away} no longer shown` : "";
      // What can be done to one of them; of those that are away, and of all that match, it is unknown.
      const can = new Set(boxes.filter((each) => each.checked).flatMap((each) => each.dataset.can.split(" ")));
      const unknown = away > 0 || $("[name=scope]", bar)?.checked;
      $$("[name=action]", bar).forEach((each) => { each.hidden = !unknown && !can.has(each.value); });
    }
    const all = $("#pick-all");
    if (all) {
      all.checked = picked > 0 && picked === boxes.length;
      all.indeterminate = picked > 0 && picked < boxes.length;
    }
  }

  document.addEventListener("change", (event) => {
    if (event.target.id === "pick-all") {
      $$(".pick").forEach((each) => { each.checked = event.target.checked; });
    }
    count();
    if (event.target.matches(".pick, #pick-all")) {
      $("#announced").textContent = `${$("[data-picked]").textContent} selected`;
    }
  });

  document.addEventListener("click", (event) => {
    if (event.target.matches("[data-untick]")) {
      $$(".pick").forEach((each) => { each.checked = false; });
      gone().forEach((each) => each.remove());
      count();
    }
  });

  document.addEventListener("htmx:before:swap", ({ detail }) => {
    if (detail.tasks[0]?.target?.id === "live") {
      ticked = [...$$(".pick:checked"), ...gone()].map((each) => each.value);
    }
  });

  // --- The side panel ----------------------------------------------------------------------------

  const shown = () => $("#panel article")?.dataset;
  let opened = ""; // the row of what the panel has, or had

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.target.closest("input, select, textarea, dialog")) {
      $("#panel [data-close]")?.click();
    }
  });

  // A dot of the line opens its attempt in the list of them; without scripts its address does.
  document.addEventListener("click", (event) => {
    const dot = event.target.closest?.("[data-attempt]");
    const details = dot && document.getElementById(`attempt-${dot.dataset.attempt}`);
    if (details) {
      event.preventDefault();
      details.open = true;
      details.scrollIntoView({ block: "nearest" });
      $("summary", details).focus({ preventScroll: true });
    }
  });

  function settle() {
    opened = shown()?.schedule || opened;
    $$("tr[data-row]").forEach((row) => {
      const is = row.classList.toggle("shown", row.id === `r-${shown()?.schedule}`);
      $("a.opens", row).ariaCurrent = is ? "true" : null;
    });
    keepTicks();
    count();
  }

  document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
    const into = ctx.target?.id ?? ctx.hx.retarget?.slice(1); // the answer may choose another place
    letGo = letGo && into !== "live";
    settle();
    if (into === "panel") {
      const walked = ctx.sourceElement.matches("a.opens") && !ctx.sourceEvent.isTrusted; // by j and k
      if (!walked && ctx.sourceEvent.type !== "live") {
        const closed = !shown() && document.getElementById(`r-${opened}`);
        (closed ? $("a.opens", closed) : $("#panel [autofocus]") || $("#panel h2"))?.focus({ preventScroll: true });
      }
      document.title = shown()?.title || document.title;
    }
  });

  document.addEventListener("DOMContentLoaded", settle);
})();
