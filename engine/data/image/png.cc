#include "engine/data/image/png.h"

#include <png.h>

#include <csetjmp>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// Everything that outlives a jump. libpng reports errors by longjmp, which runs
// no destructors: the functions that it leaves have no locals that need one.
struct PngState {
  png_structp decoder = nullptr;
  png_infop info = nullptr;
  absl::string_view rest;
  char text[200] = {};
};

[[noreturn]] void OnPngError(png_structp decoder, png_const_charp text) {
  auto* state = static_cast<PngState*>(png_get_error_ptr(decoder));
  std::strncpy(state->text, text, sizeof state->text - 1);
  png_longjmp(decoder, 1);
}

void OnPngWarning(png_structp, png_const_charp) {}

void ReadPngBytes(png_structp decoder, png_bytep to, size_t count) {
  auto* state = static_cast<PngState*>(png_get_io_ptr(decoder));
  if (count > state->rest.size()) png_error(decoder, "the file is cut off");
  std::memcpy(to, state->rest.data(), count);
  state->rest.remove_prefix(count);
}

// Reads the header and asks for 8 bits of grey or of three colors. Returns
// false and sets the text if the header is broken.
bool ReadPngHeader(PngState* state) {
  if (setjmp(png_jmpbuf(state->decoder)) != 0) return false;
  png_set_read_fn(state->decoder, state, ReadPngBytes);
  // Texts and profiles could unpack to any size, and are not used.
  png_set_keep_unknown_chunks(state->decoder, PNG_HANDLE_CHUNK_NEVER, nullptr,
                              -1);
  png_set_user_limits(state->decoder, kMaxImageSide, kMaxImageSide);
  png_read_info(state->decoder, state->info);
  png_set_expand(state->decoder);  // palettes and fewer than 8 bits
  png_set_scale_16(state->decoder);
  png_set_strip_alpha(state->decoder);
  png_set_interlace_handling(state->decoder);
  png_read_update_info(state->decoder, state->info);
  return true;
}

// Decodes into the rows. Returns false and sets the text on errors.
bool ReadPngRows(PngState* state, png_bytepp rows) {
  if (setjmp(png_jmpbuf(state->decoder)) != 0) return false;
  png_read_image(state->decoder, rows);
  png_read_end(state->decoder, nullptr);
  return true;
}

absl::Status PngError(const PngState& state) {
  return absl::InvalidArgumentError(
      absl::StrCat("is no PNG file that can be read (", state.text,
                   "); save it again or leave it out"));
}

absl::StatusOr<DecodedImage> DecodePngInto(PngState* state) {
  if (!ReadPngHeader(state)) return PngError(*state);
  DecodedImage image = {
      .width = png_get_image_width(state->decoder, state->info),
      .height = png_get_image_height(state->decoder, state->info),
      .channels = png_get_channels(state->decoder, state->info)};
  RETURN_IF_ERROR(CheckImageSize(image.width, image.height));
  const size_t row_bytes = size_t{image.width} * image.channels;
  if ((image.channels != 1 && image.channels != 3) ||
      png_get_rowbytes(state->decoder, state->info) != row_bytes) {
    return absl::InvalidArgumentError(
        "is a PNG file of an unknown form; save it again as RGB");
  }
  image.pixels.resize(row_bytes * image.height);
  std::vector<png_bytep> rows(image.height);
  for (size_t y = 0; y < rows.size(); ++y) {
    rows[y] = image.pixels.data() + y * row_bytes;
  }
  if (!ReadPngRows(state, rows.data())) return PngError(*state);
  return image;
}

}  // namespace

absl::StatusOr<DecodedImage> DecodePng(absl::string_view bytes) {
  PngState state;
  state.rest = bytes;
  state.decoder = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state,
                                         OnPngError, OnPngWarning);
  if (state.decoder == nullptr) {
    return absl::ResourceExhaustedError("the host has no memory for an image");
  }
  state.info = png_create_info_struct(state.decoder);
  absl::StatusOr<DecodedImage> image =
      state.info == nullptr
          ? absl::ResourceExhaustedError("the host has no memory for an image")
          : DecodePngInto(&state);
  png_destroy_read_struct(&state.decoder, &state.info, nullptr);
  return image;
}

}  // namespace gpupool::engine
