// Makes elements. Text is always set as text, so nothing that users name can
// become markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) {
      node.addEventListener(name.slice(2), value);
    } else if (name === 'value' && 'value' in node) {
      node.value = value;
    } else {
      node.setAttribute(name, value === true ? '' : value);
    }
  }
  node.append(...children.flat().filter(child => child !== null));
  return node;
}

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Replaces what is in the node unless it would look the same, so that a page
// that is drawn again keeps its focus and its selection.
export function redraw(node, ...children) {
  const fresh = node.cloneNode(false);
  fresh.append(...children.flat().filter(child => child !== null));
  if (!fresh.isEqualNode(node)) node.replaceChildren(...fresh.childNodes);
}

// Returns a table. A column is {title, number, of: row => text or node}.
export function table(caption, columns, rows, empty) {
  const head = columns.map(
      column => el('th', {scope: 'col', class: column.number ? 'number' : null},
                   column.title));
  const body = rows.map(
      row => el('tr', {}, columns.map(
          column => el('td', {class: column.number ? 'number' : null},
                       column.of(row) ?? ''))));
  if (rows.length === 0) {
    body.push(el('tr', {}, el('td', {colspan: columns.length, class: 'quiet'},
                              empty)));
  }
  return el('div', {class: 'scroll', tabindex: 0, role: 'region',
                    'aria-label': caption},
            el('table', {}, el('thead', {}, el('tr', {}, head)),
               el('tbody', {}, body)));
}

// Returns a list of names and values without those that are empty.
export function facts(pairs) {
  const list = el('dl');
  for (const [name, value] of pairs) {
    if (value === '' || value === null || value === undefined) continue;
    list.append(el('dt', {}, name), el('dd', {}, value));
  }
  return list;
}

export function link(to, text) {
  return el('a', {href: `#/${to}`}, text);
}

// Saves text as a file of the person who looks.
export function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  const anchor = el('a', {href: url, download: name});
  anchor.click();
  URL.revokeObjectURL(url);
}
