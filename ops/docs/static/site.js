document.addEventListener("DOMContentLoaded", () => {
  // What scrolls sideways must be within reach of the keyboard.
  for (const each of document.querySelectorAll("pre, .table-wrapper")) each.tabIndex = 0;
});

// The list of versions lies beside them, so that pages of old versions know the new ones.
document.addEventListener("DOMContentLoaded", async () => {
  const select = document.getElementById("version");
  if (!select) return;
  const here = new URL(select.dataset.root, location.href);
  const versions = await (await fetch(new URL("../versions.json", here))).json();
  const current = select.value;
  select.replaceChildren(...versions.map((name) => new Option(name, name, false, name === current)));
  select.addEventListener("change", () => {
    location.href = new URL(`../${select.value}/`, here);
  });
});
