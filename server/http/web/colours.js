// Colours that tell rows apart on light and on dark pages.

const COLOURS = ['#2f81f7', '#d9730d', '#2da44e', '#bf3989', '#8250df',
                 '#9a6700', '#0598bc', '#cf222e'];

// Returns the colour of a row. After eight they repeat; -1 has the last one.
export function colourOf(index) {
  return COLOURS.at(index % COLOURS.length);
}
