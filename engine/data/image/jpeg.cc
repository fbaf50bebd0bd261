#include "engine/data/image/jpeg.h"

// jpeglib.h needs size_t and FILE.
#include <cstddef>
#include <cstdio>
//
#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// Bounds the work for progressive files: each scan goes over all pixels.
constexpr int kMaxScans = 100;

// Everything that outlives a jump. libjpeg reports errors by longjmp, which
// runs no destructors: the functions that it leaves have no locals that need
// one.
struct JpegState {
  jpeg_decompress_struct decoder = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  jmp_buf escape;
  char text[JMSG_LENGTH_MAX] = {};
};

[[noreturn]] void Escape(j_common_ptr decoder) {
  auto* state = static_cast<JpegState*>(decoder->client_data);
  decoder->err->format_message(decoder, state->text);
  longjmp(state->escape, 1);
}

// Takes warnings of damaged data as errors, but for harmless oddities that
// many files have.
void OnMessage(j_common_ptr decoder, int level) {
  if (level >= 0) return;
  const int code = decoder->err->msg_code;
  if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM ||
      code == JWRN_JFIF_MAJOR) {
    return;
  }
  Escape(decoder);
}

void CheckScans(j_common_ptr decoder) {
  auto* self = reinterpret_cast<j_decompress_ptr>(decoder);
  if (self->input_scan_number <= kMaxScans) return;
  auto* state = static_cast<JpegState*>(decoder->client_data);
  std::snprintf(state->text, sizeof state->text, "has more than %d scans",
                kMaxScans);
  longjmp(state->escape, 1);
}

// Reads the header. Returns false and sets the text if it is broken.
bool ReadJpegHeader(JpegState* state, const unsigned char* bytes,
                    size_t count) {
  state->decoder.err = jpeg_std_error(&state->errors);
  state->errors.error_exit = Escape;
  state->errors.emit_message = OnMessage;
  state->progress.progress_monitor = CheckScans;
  state->decoder.client_data = state;
  if (setjmp(state->escape) != 0) return false;
  jpeg_create_decompress(&state->decoder);
  // jpeg_create_decompress keeps client_data and err only.
  state->decoder.progress = &state->progress;
  jpeg_mem_src(&state->decoder, bytes, static_cast<unsigned long>(count));
  jpeg_read_header(&state->decoder, TRUE);
  const J_COLOR_SPACE space = state->decoder.jpeg_color_space;
  state->decoder.out_color_space = space == JCS_GRAYSCALE ? JCS_GRAYSCALE
                                   : space == JCS_CMYK || space == JCS_YCCK
                                       ? JCS_CMYK
                                       : JCS_RGB;
  state->decoder.dct_method = JDCT_ISLOW;  // the same bits on every machine
  return true;
}

// Decodes into rows of `row_bytes`. Returns false and sets the text on errors.
bool ReadJpegRows(JpegState* state, unsigned char* to, size_t row_bytes) {
  if (setjmp(state->escape) != 0) return false;
  jpeg_start_decompress(&state->decoder);
  while (state->decoder.output_scanline < state->decoder.output_height) {
    JSAMPROW row = to + state->decoder.output_scanline * row_bytes;
    jpeg_read_scanlines(&state->decoder, &row, 1);
  }
  jpeg_finish_decompress(&state->decoder);
  return true;
}

absl::Status JpegError(const JpegState& state) {
  return absl::InvalidArgumentError(
      absl::StrCat("is no JPEG file that can be read (", state.text,
                   "); save it again or leave it out"));
}

// Returns value * factor / 255, rounded.
uint8_t Share(uint32_t value, uint32_t factor) {
  return static_cast<uint8_t>((value * factor + 127) / 255);
}

// Turns four inverted inks into three colors.
std::vector<uint8_t> RgbOfInks(const std::vector<uint8_t>& inks) {
  std::vector<uint8_t> colors(inks.size() / 4 * 3);
  for (size_t i = 0; i < inks.size() / 4; ++i) {
    const uint8_t* ink = &inks[4 * i];
    for (size_t c = 0; c < 3; ++c) colors[3 * i + c] = Share(ink[c], ink[3]);
  }
  return colors;
}

absl::StatusOr<DecodedImage> DecodeInto(JpegState* state,
                                        absl::string_view bytes) {
  if (!ReadJpegHeader(state,
                      reinterpret_cast<const unsigned char*>(bytes.data()),
                      bytes.size())) {
    return JpegError(*state);
  }
  DecodedImage image = {.width = state->decoder.image_width,
                        .height = state->decoder.image_height};
  RETURN_IF_ERROR(CheckImageSize(image.width, image.height));
  const J_COLOR_SPACE space = state->decoder.out_color_space;
  image.channels = space == JCS_GRAYSCALE ? 1 : space == JCS_CMYK ? 4 : 3;
  const size_t row_bytes = size_t{image.width} * image.channels;
  image.pixels.resize(row_bytes * image.height);
  if (!ReadJpegRows(state, image.pixels.data(), row_bytes)) {
    return JpegError(*state);
  }
  if (image.channels == 4) {
    image.pixels = RgbOfInks(image.pixels);
    image.channels = 3;
  }
  return image;
}

}  // namespace

absl::StatusOr<DecodedImage> DecodeJpeg(absl::string_view bytes) {
  JpegState state;
  absl::StatusOr<DecodedImage> image = DecodeInto(&state, bytes);
  jpeg_destroy_decompress(&state.decoder);
  return image;
}

}  // namespace gpupool::engine
