// The live part of a page comes in named pieces: a tick tells which ones are here, the answer has the
// others and the order of all. What is swapped in is the whole text, as if all of it had been sent.
"use strict";

(() => {
  const MARK = /<!--(?:new ([\w-]{8})|old (\d+) (\d+)|end)-->/;
  const HEADER = "Postdate-Has";
  let pieces = new Map();

  // The text without marks; what it names replaces what was kept. Null if it needs what is not here.
  function whole(text, names) {
    const [before, ...parts] = text.split(MARK);
    const had = pieces;
    pieces = new Map();
    let all = before;
    for (let i = 0; i < parts.length; i += 4) {
      const [name, first, last, after] = parts.slice(i, i + 4);
      if (name) {
        pieces.set(name, after);
      }
      for (let at = Number(first); at <= Number(last); at++) {
        if (!had.has(names[at])) {
          pieces = new Map();
          return null;
        }
        pieces.set(names[at], had.get(names[at]));
        all += had.get(names[at]);
      }
      all += after;
    }
    return all;
  }

  // Before anything on the page is changed by scripts. Older browsers leave < and > in attributes as
  // they are, so a target's words in one could look like a mark: then the first tick asks for all.
  const live = document.getElementById("live");
  const attributes = [...(live?.querySelectorAll("*") || [])].flatMap((each) => [...each.attributes]);
  if (live && !attributes.some(({ value }) => value.includes("<!--"))) {
    whole(live.innerHTML, []);
  }

  document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
    if (ctx.sourceElement.id === "live") {
      ctx.request.headers[HEADER] = [...pieces.keys()].join("") || "-";
    }
  });

  document.addEventListener("htmx:after:request", (event) => {
    const { ctx } = event.detail;
    if (MARK.test(ctx.text)) {
      const all = whole(ctx.text, ctx.request.headers[HEADER]?.match(/.{8}/g) || []);
      if (all === null) {
        event.preventDefault();
      }
      ctx.text = all;
    }
  });
})();
