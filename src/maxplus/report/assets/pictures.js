// Inputs and boxes as greyscale images with marked pixels.

const SIDE = 224; // canvas pixels along the longer side, about twice what is shown
// Different radii keep both rings visible when they mark the same pixel.
const MARKS = {
  deciding: { colour: "#ff8a1f", radius: 0.045 * SIDE },
  flip: { colour: "#38b6ff", radius: 0.085 * SIDE },
};

/** Minimum and maximum of all numbers; null is ignored. */
function range(lists) {
  let [low, high] = [Infinity, -Infinity];
  for (const list of lists) {
    for (const value of list) {
      if (value === null) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return low < high ? [low, high] : [low, low + 1];
}

/** Greyscale image of the numbers: `low` and below is black, `high` and above is white. */
function greyImage(values, [height, width], [low, high]) {
  const small = element("canvas", { width, height });
  const context = small.getContext("2d");
  const image = context.createImageData(width, height);
  values.forEach((value, i) => {
    const grey = (255 * (value - low)) / (high - low); // Uint8ClampedArray clips to 0..255
    image.data.set([grey, grey, grey, 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
  return small;
}

/** Draws a ring around a pixel, with a dark edge for contrast on white. */
function ring(context, x, y, { colour, radius }) {
  for (const [width, style] of [[7, "#000"], [4, colour]]) {
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.lineWidth = width;
    context.strokeStyle = style;
    context.stroke();
  }
}

/** Creates a canvas with the image; `marks` are pairs of a kind and a pixel index. */
function picture(values, shape, limits, marks, label) {
  const [height, width] = shape;
  const scale = Math.max(1, Math.floor(SIDE / Math.max(height, width)));
  const size = { width: width * scale, height: height * scale };
  const canvas = element("canvas", { ...size, role: "img", "aria-label": label });
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(greyImage(values, shape, limits), 0, 0, size.width, size.height);
  for (const [kind, index] of marks) {
    const [x, y] = [index % width, Math.floor(index / width)];
    ring(context, (x + 0.5) * scale, (y + 0.5) * scale, MARKS[kind]);
  }
  return canvas;
}
