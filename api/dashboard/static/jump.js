// Ctrl-K, or ⌘K on a Mac, opens the dialog that jumps anywhere. Without it there is its page.
"use strict";

(() => {
  const $ = (selector) => document.querySelector(selector);
  const links = () => [...document.querySelectorAll("#found a")];
  const isMac = navigator.platform.startsWith("Mac");

  function open() {
    const box = $("#jump");
    if (box.matches("dialog:not([open])")) {
      box.showModal();
    }
    $("#jump input").select();
  }

  function step(by) {
    const all = [$("#jump input"), ...links()];
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

  // Enter goes to the first place, once the places are of what is typed; else the form's page finds them.
  document.addEventListener("submit", (event) => {
    const first = event.target.closest("#jump") && links()[0];
    if (first && $("#found ul").dataset.q === $("#jump input").value.trim()) {
      event.preventDefault();
      first.click();
    }
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.id === "found") {
      $("#found-count").textContent = `${links().length} found`;
    }
  });

  document.addEventListener("DOMContentLoaded", () => {
    if (isMac && $("[data-jump] kbd")) {
      $("[data-jump] kbd").textContent = "⌘K";
    }
  });
})();
