#include "client/files/trace_file.h"

#include <gmock/gmock.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

std::string WriteTrace(const std::string& bytes) {
  const std::string path =
      ::testing::TempDir() + "/trace_file_test_" + std::to_string(::getpid());
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string Gzip(const std::string& text) {
  const std::string path = WriteTrace("") + ".gz";
  gzFile file = gzopen(path.c_str(), "wb9");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

absl::Status Refusal(const std::string& bytes, size_t limit = 1 << 20) {
  const auto text = ReadTraceFile(WriteTrace(bytes), limit);
  EXPECT_FALSE(text.ok());
  return text.status();
}

TEST(TraceFileTest, ReadsPlainAndCompressedFiles) {
  const std::string text = "submit_s,gpus,duration_s\n0,1,2\n";
  EXPECT_EQ(ReadTraceFile(WriteTrace(text)).value(), text);
  EXPECT_EQ(ReadTraceFile(WriteTrace(Gzip(text))).value(), text);
  EXPECT_EQ(ReadTraceFile(WriteTrace(Gzip(text) + Gzip("more\n"))).value(),
            text + "more\n")
      << "members one after the other, as gzip(1) reads them";
  EXPECT_EQ(ReadTraceFile(WriteTrace(Gzip(""))).value(), "");
}

TEST(TraceFileTest, ReadsMoreThanItsBuffer) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i * 7919) + ",";
  EXPECT_EQ(ReadTraceFile(WriteTrace(Gzip(text))).value(), text);
}

TEST(TraceFileTest, ACutOrBrokenGzipFileIsRefused) {
  const std::string whole = Gzip(std::string(5000, 'a') + "bcdefgh");
  for (const size_t size : {whole.size() - 1, whole.size() / 2, size_t{3}}) {
    const absl::Status status = Refusal(whole.substr(0, size));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << size;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("not a complete gzip file"));
  }
  std::string broken = whole;
  broken[broken.size() - 5] ^= 1;  // its checksum
  EXPECT_THAT(std::string(Refusal(broken).message()),
              HasSubstr("incorrect data check"));
  EXPECT_FALSE(ReadTraceFile(WriteTrace(whole + "rubbish")).ok());
}

TEST(TraceFileTest, WhatDecompressesToTooMuchIsRefused) {
  const absl::Status status = Refusal(Gzip(std::string(1 << 20, 'a')), 99999);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("holds more than 99999 bytes when decompressed"));
}

TEST(TraceFileTest, AMissingFileIsNotFound) {
  EXPECT_EQ(ReadTraceFile("/no/such.csv").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gpupool::client
