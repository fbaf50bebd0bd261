#include "engine/base/data_file_name.h"

#include <gtest/gtest.h>

#include <utility>

namespace gpupool::engine {
namespace {

enum class AnyFormat { UNSPECIFIED, CSV, IDX, NPY, NPZ, IMAGES, TEXT };

TEST(DataFileNameTest, TheEndingTellsTheFormat) {
  using Format = AnyFormat;
  const std::pair<const char*, Format> rows[] = {
      {"a.csv", Format::CSV},
      {"A.CSV.GZ", Format::CSV},
      {"a.jsonl", Format::CSV},
      {"A.NDJSON.gz", Format::CSV},
      {"labels.idx", Format::IDX},
      {"train-images-idx3-ubyte.gz", Format::IDX},
      {"x.npy", Format::NPY},
      {"x.npz", Format::NPZ},
      {"x.TAR", Format::IMAGES},
      {"book.txt", Format::TEXT},
      {"book.TXT.gz", Format::TEXT},
      {"x.tar.gz", Format::UNSPECIFIED},
      {"x.json", Format::UNSPECIFIED},
      {"x.parquet", Format::UNSPECIFIED},
      {"csv", Format::UNSPECIFIED},
      {"", Format::UNSPECIFIED}};
  for (const auto& [name, format] : rows) {
    EXPECT_EQ(FormatOfFileName<Format>(name), format) << name;
  }
}

TEST(DataFileNameTest, JsonLinesAreToldFromCsv) {
  for (const char* name : {"a.jsonl", "A.NDJSON.gz", "b.JSONL.GZ"}) {
    EXPECT_TRUE(IsJsonLinesName(name)) << name;
  }
  for (const char* name : {"a.csv", "a.json", "jsonl", "a.jsonl.csv"}) {
    EXPECT_FALSE(IsJsonLinesName(name)) << name;
  }
}

}  // namespace
}  // namespace gpupool::engine
