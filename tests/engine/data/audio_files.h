// Makes WAV and FLAC files for tests.
#pragma once

#include <sndfile.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace gpupool::engine::files {

struct Recording {
  int rate = 8000;
  int channels = 1;
  std::vector<float> numbers;  // [samples, channels]
  int form = SF_FORMAT_WAV | SF_FORMAT_PCM_16;
};

// Returns a file that libsndfile writes. In 16 bits, multiples of 1/64 up to
// 0.5 come back as they are.
inline std::string Sound(const Recording& recording) {
  struct Memory {
    std::string bytes;
    sf_count_t place = 0;
  };
  Memory memory;
  SF_VIRTUAL_IO functions = {
      [](void* self) {
        return static_cast<sf_count_t>(
            static_cast<Memory*>(self)->bytes.size());
      },
      [](sf_count_t offset, int whence, void* self) {
        auto* file = static_cast<Memory*>(self);
        const auto size = static_cast<sf_count_t>(file->bytes.size());
        file->place = offset + (whence == SEEK_SET   ? 0
                                : whence == SEEK_CUR ? file->place
                                                     : size);
        return file->place;
      },
      [](void* to, sf_count_t count, void* self) {
        auto* file = static_cast<Memory*>(self);
        const auto size = static_cast<sf_count_t>(file->bytes.size());
        count = std::clamp<sf_count_t>(size - file->place, 0, count);
        std::memcpy(to, file->bytes.data() + file->place,
                    static_cast<size_t>(count));
        file->place += count;
        return count;
      },
      [](const void* from, sf_count_t count, void* self) {
        auto* file = static_cast<Memory*>(self);
        const auto end = static_cast<size_t>(file->place + count);
        if (file->bytes.size() < end) file->bytes.resize(end);
        std::memcpy(file->bytes.data() + file->place, from,
                    static_cast<size_t>(count));
        file->place += count;
        return count;
      },
      [](void* self) { return static_cast<Memory*>(self)->place; }};
  SF_INFO info = {};
  info.samplerate = recording.rate;
  info.channels = recording.channels;
  info.format = recording.form;
  SNDFILE* file = sf_open_virtual(&functions, SFM_WRITE, &info, &memory);
  if (file == nullptr) return "";
  sf_writef_float(
      file, recording.numbers.data(),
      static_cast<sf_count_t>(recording.numbers.size()) / recording.channels);
  sf_close(file);
  return memory.bytes;
}

// Returns a number of `count` bytes, little-endian.
inline std::string Number(uint32_t number, size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) {
    bytes += static_cast<char>((number >> (8 * i)) & 0xff);
  }
  return bytes;
}

// Returns the 44 bytes in front of the samples of a WAV file with one channel
// of 16 bits, whose header claims `data_bytes` of samples.
inline std::string WavHeader(uint32_t data_bytes, uint32_t encoding = 1) {
  return "RIFF" + Number(data_bytes + 36, 4) + "WAVEfmt " + Number(16, 4) +
         Number(encoding, 2) + Number(1, 2) + Number(8000, 4) +
         Number(16000, 4) + Number(2, 2) + Number(16, 2) + "data" +
         Number(data_bytes, 4);
}

}  // namespace gpupool::engine::files
