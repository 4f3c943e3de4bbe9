// Reads a frame as text in which elements that can be used have numbers: [12: link "Docs"].
// `marks` keeps the numbers: an element has one for as long as it lives, and no number is given twice.
([marks, options]) => {
  const began = performance.now();
  const lines = [], secrets = [];
  let line = "", size = 0, seen = 0, next = options.next, cut = false;
  marks.frames = [];

  const SKIPPED = new Set(["script", "style", "noscript", "template", "head", "meta", "link", "datalist", "source", "track"]);
  const ROLES = {
    button: "button", link: "link", checkbox: "checkbox", radio: "radio", switch: "switch", tab: "tab", menuitem: "button",
    menuitemcheckbox: "checkbox", menuitemradio: "radio", option: "option", treeitem: "button", textbox: "field",
    searchbox: "field", combobox: "field", spinbutton: "field", slider: "slider",
  };
  const USABLE = "a[href],button,input,select,textarea,summary,[role=button],[role=link],[role=checkbox],[onclick]";
  const clean = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\s]+/g, " ").trim();
  const short = (text, most = 100) => {
    text = clean(text);
    return text.length > most ? text.slice(0, most - 1) + "…" : text;
  };
  const quoted = (text) => '"' + text.replaceAll('"', "'") + '"';
  const children = (node) => {
    if (node.shadowRoot) return node.shadowRoot.childNodes;
    if (node.localName === "slot") {
      const assigned = node.assignedNodes();
      if (assigned.length) return assigned;
    }
    return node.childNodes;
  };

  const flush = () => {
    const text = clean(line);
    line = "";
    if (!text || text === "-" || /^#+$/.test(text)) return;
    size += text.length + 1;
    if (size > options.characters) cut = true;
    else lines.push(text);
  };
  const add = (text) => { line += text; };

  // the words of an element as a person sees them, also through shadow roots and slots
  const words = (node, most = 200, depth = 0) => {
    let text = "";
    for (const child of children(node)) {
      if (text.length > most || depth > 30) break;
      if (child.nodeType === 3) text += child.data;
      else if (child.nodeType === 1 && !SKIPPED.has(child.localName) && child.localName !== "select") {
        const style = getComputedStyle(child);
        if (style.display === "none" || style.visibility === "hidden") continue;
        if (child.localName === "img") text += " " + (child.alt || "") + " ";
        else if (child.localName === "svg") text += " " + (child.getAttribute("aria-label") || child.querySelector("title")?.textContent || "") + " ";
        else text += (style.display.startsWith("inline") ? "" : " ") + words(child, most - text.length, depth + 1) + (style.display.startsWith("inline") ? "" : " ");
      }
    }
    return text;
  };
  const named = (node) => {
    const root = node.getRootNode();
    const by = (node.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean);
    const labelled = by.map((id) => root.getElementById?.(id)).filter(Boolean).map((one) => words(one)).join(" ");
    if (clean(labelled)) return short(labelled);
    if (clean(node.getAttribute("aria-label") || "")) return short(node.getAttribute("aria-label"));
    const labels = node.labels ? [...node.labels].map((one) => words(one)).join(" ") : "";
    if (clean(labels)) return short(labels);
    if (node.localName === "input" && ["submit", "button", "reset"].includes(node.type)) return short(node.value || node.type);
    if (node.localName === "input" && node.type === "image") return short(node.alt || "image");
    if (!["input", "select", "textarea"].includes(node.localName) && !node.isContentEditable) {
      const text = words(node);
      if (clean(text)) return short(text);
      const inner = node.querySelector("[aria-label],[title]");
      if (inner) return short(inner.getAttribute("aria-label") || inner.getAttribute("title"));
    }
    return short(node.getAttribute("placeholder") || node.getAttribute("title") || node.getAttribute("name") || "");
  };

  const kind = (node, tag, style, isWithin) => {
    if (tag === "input") {
      if (node.type === "hidden") return "";
      if (["submit", "button", "reset", "image"].includes(node.type)) return "button";
      if (["checkbox", "radio", "file", "password"].includes(node.type)) return node.type;
      if (node.type === "range") return "slider";
      return ["text", "search", ""].includes(node.type) ? "field" : node.type + " field";
    }
    if (tag === "select") return "select";
    if (tag === "textarea") return "field";
    if (node.isContentEditable && !node.parentElement?.isContentEditable) return "field";
    const role = ROLES[node.getAttribute("role")];
    if (role) return role;
    if (tag === "a" && node.hasAttribute("href")) return "link";
    if (tag === "button" || tag === "summary") return "button";
    if (isWithin || ["label", "option", "html", "body"].includes(tag)) return "";
    return node.hasAttribute("onclick") || style.cursor === "pointer" ? "clickable" : "";
  };
  const state = (node, what) => {
    const said = [];
    const aria = (name) => node.getAttribute("aria-" + name);
    if (["checkbox", "radio", "switch"].includes(what)) {
      const on = node.localName === "input" ? node.checked : aria("checked") === "true";
      said.push(on ? "checked" : "not checked");
    }
    if (node.disabled || aria("disabled") === "true") said.push("disabled");
    if (aria("expanded")) said.push(aria("expanded") === "true" ? "expanded" : "collapsed");
    if (aria("selected") === "true") said.push("selected");
    if (aria("pressed") === "true") said.push("pressed");
    if (node.readOnly && what.endsWith("field")) said.push("read only");
    if (aria("invalid") === "true") said.push("invalid");
    else { try { if (node.matches(":user-invalid")) said.push("invalid: " + short(node.validationMessage || "")); } catch {} }
    return said.length ? " " + said.join(", ") : "";
  };
  const value = (node, what) => {
    if (what === "select") {
      const names = [...node.options].slice(0, 12).map((one) => short(one.label, 40));
      const more = node.options.length > 12 ? ", … " + (node.options.length - 12) + " more" : "";
      const chosen = [...node.selectedOptions].map((one) => quoted(short(one.label, 40))).join(", ");
      return " = " + (chosen || '""') + " of " + names.join(", ") + more;
    }
    const secret = what === "password" || /password|cc-csc|one-time-code/.test(node.getAttribute("autocomplete") || "");
    if (what === "file") return node.files.length ? " = " + [...node.files].map((one) => quoted(short(one.name))).join(", ") : "";
    if (!secret && !what.endsWith("field") && what !== "slider") return "";
    const text = node.value !== undefined ? String(node.value) : node.textContent;
    if (secret && text) secrets.push(text);
    if (secret) return text ? " = (filled)" : "";
    return text ? " = " + quoted(short(text)) : "";
  };
  const number = (node) => {
    let mine = marks.numbers.get(node);
    if (mine === undefined) {
      mine = next++;
      marks.numbers.set(node, mine);
      marks.elements.set(mine, new WeakRef(node));
    }
    return mine;
  };
  const told = (node, what, name, of = node) =>
    add(` [${number(node)}: ${what}${name ? " " + quoted(name) : ""}${value(of, what)}${state(of, what)}] `);

  const inner = (node, ...rest) => { for (const child of children(node)) visit(child, ...rest); };
  const visit = (node, isHidden, isLabel, isWithin, depth) => {
    if (cut) return;
    if (node.nodeType === 3) {
      if (!isHidden && !isLabel) add(node.data);
      return;
    }
    if (node.nodeType !== 1) return;
    if ((++seen % 200 === 0 && performance.now() - began > options.milliseconds) || depth > 800) { cut = true; return; }
    const tag = node.localName;
    if (SKIPPED.has(tag)) return;
    const style = getComputedStyle(node);
    if (style.display === "none") return;
    isHidden = style.visibility !== "visible";
    const isBlock = !/^(inline|contents|ruby)/.test(style.display) && style.display !== "table-cell";
    if (isBlock) flush();
    if (tag === "br" || tag === "hr") { flush(); return; }
    if (tag === "iframe" || tag === "frame") {
      const box = node.getBoundingClientRect();
      if (!isHidden && box.width > 3 && box.height > 3 && marks.frames.length < options.frames) {
        flush();
        lines.push("\u0001" + (marks.frames.push(node) - 1));
      }
      return;
    }
    if (tag === "img") { if (!isHidden && clean(node.alt)) add(` (image: ${short(node.alt)}) `); return; }
    if (tag === "video" || tag === "audio" || tag === "canvas") { if (!isHidden) add(` (${tag}) `); return; }
    if (tag === "svg") return;
    if (/^h[1-6]$/.test(tag)) line = "#".repeat(+tag[1]) + " ";
    if (tag === "li" && !clean(line)) line = "- ";
    if ((tag === "td" || tag === "th") && clean(line)) add(" | ");
    if (tag === "dialog" || /^(alert)?dialog$/.test(node.getAttribute("role") || "")) { flush(); lines.push("--- dialog ---"); }
    if (tag === "label" && node.control) {
      const control = node.control, what = kind(control, control.localName, style, true);
      const isDrawn = getComputedStyle(control).display !== "none";
      if (!isDrawn && what && what !== "file" && !isHidden) told(node, what, short(words(node)), control);
      inner(node, isHidden, true, true, depth + 1);
      if (isBlock) flush();
      return;
    }
    const what = isHidden && !(tag === "input" && node.type === "file") ? "" : kind(node, tag, style, isWithin);
    if (what) {
      const isLeaf = ["input", "select", "textarea"].includes(tag) || what === "field";
      const text = isLeaf ? "" : clean(words(node, 130));
      if (!isLeaf && (text.length > 120 || node.querySelector(USABLE) || node.querySelector("iframe") || (what === "clickable" && !text))) {
        if (text || what !== "clickable" || node.hasAttribute("onclick")) told(node, what, named(node) === short(text) ? "" : short(node.getAttribute("aria-label") || ""));
        inner(node, isHidden, isLabel, true, depth + 1);
      } else told(node, what, named(node));
    } else if (tag === "details" && !node.open) {
      for (const child of children(node)) if (child.localName === "summary") visit(child, isHidden, isLabel, isWithin, depth + 1);
    } else if (tag === "pre" && !isHidden && !node.querySelector(USABLE)) {
      for (const row of words(node, 20000).split("\n")) { line = row; flush(); }
    } else inner(node, isHidden, isLabel, isWithin || style.cursor === "pointer" && tag !== "body" && tag !== "html", depth + 1);
    if (isBlock) flush();
  };

  if (document.body) visit(document.body, false, false, false, 0);
  else if (document.documentElement) visit(document.documentElement, false, false, false, 0);
  flush();
  for (const one of document.querySelectorAll("input[type=file]")) {
    if (getComputedStyle(one).display !== "none" && marks.numbers.has(one)) continue;
    told(one, "file", named(one));
    flush();
  }
  return { secrets, text: lines.join("\n"), next, cut, frames: marks.frames.length, title: short(document.title, 200) };
}
