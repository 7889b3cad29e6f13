// Buttons that copy code. Without scripts, readers select the code.

const SAID_SECONDS = 2;

/** Copies a text. Outside secure origins browsers have no clipboard API: there the selection is copied. */
async function copy(element) {
  if (navigator.clipboard) return navigator.clipboard.writeText(element.textContent);
  window.getSelection().selectAllChildren(element);
  if (!document.execCommand("copy")) throw new Error("not copied");
}

function say(button, announcement, text) {
  button.textContent = text;
  announcement.textContent = text;
  setTimeout(() => {
    button.textContent = "Copy";
    announcement.textContent = "";
  }, SAID_SECONDS * 1000);
}

/** Adds a button to each holder of a `pre`, and announces the result to screen readers. */
export function addCopyButtons(holders, announcement) {
  for (const holder of holders) {
    const code = holder.querySelector("pre");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy: ${labelOf(code)}`);
    button.addEventListener("click", () => {
      copy(code).then(
        () => say(button, announcement, "Copied"),
        () => {
          window.getSelection().selectAllChildren(code);
          say(button, announcement, "Selected");
        },
      );
    });
    holder.append(button);
  }
}

function labelOf(code) {
  return code.getAttribute("aria-label") ?? document.getElementById(code.getAttribute("aria-labelledby")).textContent;
}
