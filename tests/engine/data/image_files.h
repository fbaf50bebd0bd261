// Makes JPEG and PNG files and tar archives for tests.
#pragma once

#include <png.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>
// jpeglib.h needs size_t and FILE.
#include <jpeglib.h>

namespace gpupool::engine::files {

// An image to write: `bytes` has its rows, one after the other.
struct Picture {
  uint32_t width = 0;
  uint32_t height = 0;
  std::string bytes;
};

// Returns a picture whose pixels all are `pixel`.
inline Picture Plain(uint32_t width, uint32_t height,
                     const std::string& pixel) {
  Picture picture = {width, height, ""};
  for (uint32_t i = 0; i < width * height; ++i) picture.bytes += pixel;
  return picture;
}

// Returns a JPEG file of the best quality: grey for 1 byte a pixel, colors for
// 3, inks for 4.
inline std::string Jpeg(const Picture& picture, bool progressive = false) {
  jpeg_compress_struct encoder = {};
  jpeg_error_mgr errors = {};
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&encoder, &bytes, &count);
  const size_t row = picture.bytes.size() / picture.height;
  encoder.image_width = picture.width;
  encoder.image_height = picture.height;
  encoder.input_components = static_cast<int>(row / picture.width);
  encoder.in_color_space = encoder.input_components == 1   ? JCS_GRAYSCALE
                           : encoder.input_components == 3 ? JCS_RGB
                                                           : JCS_CMYK;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, 100, TRUE);
  if (progressive) jpeg_simple_progression(&encoder);
  jpeg_start_compress(&encoder, TRUE);
  for (uint32_t y = 0; y < picture.height; ++y) {
    auto* at = reinterpret_cast<JSAMPROW>(
        const_cast<char*>(picture.bytes.data() + y * row));
    jpeg_write_scanlines(&encoder, &at, 1);
  }
  jpeg_finish_compress(&encoder);
  std::string file(reinterpret_cast<const char*>(bytes), count);
  jpeg_destroy_compress(&encoder);
  std::free(bytes);
  return file;
}

struct PngForm {
  int color = PNG_COLOR_TYPE_RGB;
  int bits = 8;  // of a number
  std::vector<png_color> palette;
  bool interlaced = false;
};

// Returns a PNG file. The rows have the form of the file: numbers of 16 bits
// are big-endian, those below 8 bits are packed.
inline std::string Png(const Picture& picture, const PngForm& form = {}) {
  std::string file;
  png_structp encoder =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(encoder);
  png_set_write_fn(
      encoder, &file,
      [](png_structp self, png_bytep bytes, size_t count) {
        static_cast<std::string*>(png_get_io_ptr(self))
            ->append(reinterpret_cast<const char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(encoder, info, picture.width, picture.height, form.bits,
               form.color,
               form.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!form.palette.empty()) {
    png_set_PLTE(encoder, info, form.palette.data(),
                 static_cast<int>(form.palette.size()));
  }
  png_write_info(encoder, info);
  const size_t row = picture.bytes.size() / picture.height;
  std::vector<png_bytep> rows;
  for (uint32_t y = 0; y < picture.height; ++y) {
    rows.push_back(reinterpret_cast<png_bytep>(
        const_cast<char*>(picture.bytes.data() + y * row)));
  }
  png_write_image(encoder, rows.data());
  png_write_end(encoder, info);
  png_destroy_write_struct(&encoder, &info);
  return file;
}

// Returns a tar header (ustar) with a right checksum.
inline std::string TarHeader(const std::string& name, uint64_t bytes,
                             char type = '0') {
  std::string block(512, '\0');
  const auto put = [&block](size_t place, const std::string& text) {
    block.replace(place, text.size(), text);
  };
  char size[12];
  std::snprintf(size, sizeof size, "%011llo",
                static_cast<unsigned long long>(bytes));
  put(0, name);
  put(100, "0000644");
  put(124, size);
  put(136, "00000000000");
  put(148, "        ");
  block[156] = type;
  put(257, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char byte : block) sum += static_cast<unsigned char>(byte);
  char checksum[8];
  std::snprintf(checksum, sizeof checksum, "%06o", sum);
  put(148, std::string(checksum, 7));
  return block;
}

// Returns a header with its content, which blocks of 512 bytes hold.
inline std::string TarPart(const std::string& name, const std::string& content,
                           char type = '0') {
  return TarHeader(name, content.size(), type) + content +
         std::string((512 - content.size() % 512) % 512, '\0');
}

// Returns an archive of files by name.
inline std::string Tar(
    const std::vector<std::pair<std::string, std::string>>& files) {
  std::string archive;
  for (const auto& [name, content] : files) archive += TarPart(name, content);
  return archive + std::string(1024, '\0');
}

}  // namespace gpupool::engine::files
