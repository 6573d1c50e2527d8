// Ctrl-K, or ⌘K on a Mac, opens the dialog that jumps anywhere and does things. Without it there is
// its page.
"use strict";

(() => {
  const $ = (selector) => document.querySelector(selector);
  const items = () => [...document.querySelectorAll("#found :is(a, button)")];
  const isMac = navigator.platform.startsWith("Mac");

  function open() {
    const box = $("#jump");
    if (box.matches("dialog:not([open])")) {
      box.showModal();
    }
    $("#jump input").select();
  }

  function step(by) {
    const all = [$("#jump input"), ...items()];
    const at = all.indexOf(document.activeElement);
    all[(at + by + all.length) % all.length].focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() === "k" && (isMac ? event.metaKey : event.ctrlKey) && !event.altKey && !event.shiftKey && $("#jump")) {
      event.preventDefault();
      open();
    } else if (event.target.closest("#jump") && ["ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      step(event.key === "ArrowDown" ? 1 : -1);
    }
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-jump]") && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      open();
    }
  });

  // Enter takes the first item, once the items are of what is typed; else the form's page finds them.
  // Of several acts it takes none: the first is focused, and pressed by another Enter.
  document.addEventListener("submit", (event) => {
    const all = event.target.matches("#jump form[role=search]") ? items() : [];
    if (all.length && $("#found ul").dataset.q === $("#jump input").value.trim()) {
      event.preventDefault();
      if (all[0].matches("button") && all[1]?.matches("button")) {
        all[0].focus();
      } else {
        all[0].click();
      }
    }
  });

  // After an act, the page behind shows what came of it.
  document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => {
    if (ctx.target.id !== "found") {
      return;
    }
    const done = $("#found .done");
    $("#found-count").textContent = done ? "" : `${items().length} found`;
    if (done) {
      $("#jump input").select();
      document.querySelectorAll("#live, #banner").forEach((each) => htmx.trigger(each, each.id === "live" ? "live" : "slow"));
    }
  });

  document.addEventListener("DOMContentLoaded", () => {
    if (isMac && $("[data-jump] kbd")) {
      $("[data-jump] kbd").textContent = "⌘K";
    }
  });
})();
