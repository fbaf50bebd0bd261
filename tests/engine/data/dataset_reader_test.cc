#include "engine/data/dataset_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/sha256.h"
#include "tests/engine/data/audio_files.h"
#include "tests/engine/data/columns.h"
#include "tests/engine/data/files.h"
#include "tests/engine/data/image_files.h"
#include "tests/engine/data/tokens/trained_model.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

using files::Big;
using files::Gzip;
using files::Little;
using files::Npy;
using files::Zip;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DatasetReaderTest : public ::testing::Test {
 protected:
  v1::DatasetFile Store(const std::string& name, const std::string& bytes,
                        v1::DatasetFile::Role role = v1::DatasetFile::TABLE) {
    v1::DatasetFile file;
    file.set_role(role);
    file.set_file_name(name);
    file.set_total_bytes(bytes.size());
    file.set_sha256(Sha256Hex(bytes));
    files::WriteFile(dir_ + "/" + file.sha256(), bytes);
    return file;
  }
  absl::StatusOr<Table> Read(const std::vector<v1::DatasetFile>& files,
                             const v1::DatasetLayout& layout = {}) {
    return ReadDataset(layout, files, dir_, {});
  }

  // Returns a dataset as the server stores it.
  v1::Dataset Describe(const std::vector<v1::DatasetFile>& files,
                       const Table& table) {
    v1::Dataset dataset;
    dataset.mutable_files()->Add(files.begin(), files.end());
    dataset.set_rows(table.rows);
    dataset.mutable_feature_shape()->Add(table.features().shape.begin(),
                                         table.features().shape.end());
    ToProto(table.labels().facts, dataset.mutable_labels());
    return dataset;
  }

  std::vector<std::vector<v1::DatasetFile>> Forms();

  const ScratchFolder folder_;
  const std::string dir_ = folder_.path();
};

TEST_F(DatasetReaderTest, AFormatThatNoNameTellsMustBeGiven) {
  EXPECT_THAT(Read({Store("x.parquet", "1,2\n")}).status().message(),
              HasSubstr("set layout.format"));
}

TEST_F(DatasetReaderTest, ReadsCsvPlainAndPacked) {
  for (const auto& file :
       {Store("t.csv", "1,0\n2,1\n"), Store("t.csv.gz", Gzip("1,0\n2,1\n"))}) {
    auto table = Read({file});
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->rows, 2u);
  }
}

TEST_F(DatasetReaderTest, TellsJsonLinesByTheirBytes) {
  const std::string text = "{\"x\": 1, \"y\": 0}\n{\"x\": 2, \"y\": 1}\n";
  v1::DatasetLayout csv;
  csv.set_format(v1::CSV);
  for (const auto& file :
       {Store("t.jsonl", text), Store("t.ndjson.gz", Gzip(text)),
        Store("t.json", text)}) {
    const auto table = Read({file}, csv);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_THAT(Floats(table->features()), ElementsAre(1, 2));
  }
  EXPECT_THAT(
      Read({Store("t.jsonl", "{\"x\": 1, \"y\": null}\n")}).status().message(),
      HasSubstr("t.jsonl: line 1 key \"y\": the value is null"));
}

TEST_F(DatasetReaderTest, NewFilesWithANameOfJsonLinesAreJsonLines) {
  const std::vector<v1::DatasetFile> files = {Store("t.jsonl", "1,2\n3,4\n")};
  EXPECT_TRUE(Read(files).ok()) << "as an older server stored it";
  const auto table = ReadDataset({}, files, dir_, {.is_new = true});
  EXPECT_THAT(std::string(table.status().message()),
              HasSubstr("t.jsonl: line 1 is not a JSON object but \"1,2\""));
}

TEST_F(DatasetReaderTest, TextsOfRowsNeedALength) {
  v1::DatasetLayout layout;
  layout.set_text(v1::DatasetLayout::BYTES);
  const std::vector<v1::DatasetFile> files = {Store("t.csv", "ab,1\n")};
  EXPECT_THAT(std::string(Read(files, layout).status().message()),
              HasSubstr("layout.text_length is 0; text: BYTES needs 1 to"));
  layout.set_text_length(3);
  const auto table = Read(files, layout);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->features()), ElementsAre('a', 'b', 0));
}

TEST_F(DatasetReaderTest, ReadsFilesOfText) {
  const std::vector<v1::DatasetFile> texts = {Store("0.txt", "a b\n"),
                                              Store("1.txt.gz", Gzip("b"))};
  const auto bytes = Read(texts);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_THAT(Floats(bytes->labels()), ElementsAre('a', ' ', 'b', '\n', 'b'));
  EXPECT_EQ(*HostDataBytes(Describe(texts, *bytes), dir_, {}), 5u);
  EXPECT_EQ(bytes->host_bytes(), 5u);
  v1::DatasetLayout layout;
  layout.set_format(v1::TEXT);
  v1::ColumnCategories& tokens = *layout.add_categories();
  tokens.set_column("labels");
  tokens.add_values("a");
  tokens.add_values("b");
  const auto words = Read(texts, layout);
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_THAT(Floats(words->labels()), ElementsAre(0, 1, 1));
  v1::Dataset dataset = Describe(texts, *words);
  *dataset.mutable_layout() = layout;
  EXPECT_EQ(*HostDataBytes(dataset, dir_, {}), words->host_bytes());
  EXPECT_THAT(std::string(Read({Store("2.txt", "\xFF")}).status().message()),
              HasSubstr("2.txt: line 1 is not UTF-8"));
}

TEST_F(DatasetReaderTest, ReadsTextsByTheirTokenizer) {
  const std::vector<v1::DatasetFile> texts = {
      Store("a.txt", "the the\n", v1::DatasetFile::TABLE),
      Store("a.model", TrainedModel(), v1::DatasetFile::TOKENIZER)};
  v1::DatasetLayout layout;
  layout.set_format(v1::TEXT);
  ReadLimits limits;
  limits.tokenizer_program = TokenizerProgram();
  const auto table = ReadDataset(layout, texts, dir_, limits);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 3u);
  EXPECT_EQ(table->text->vocabulary, 280u);
  v1::Dataset dataset = Describe(texts, *table);
  *dataset.mutable_layout() = layout;
  dataset.set_feature_type(v1::UINT16);
  EXPECT_EQ(*HostDataBytes(dataset, dir_, {}), table->host_bytes());
  dataset.set_feature_type(v1::INT32);
  EXPECT_EQ(*HostDataBytes(dataset, dir_, {}), 2 * table->host_bytes());
}

TEST_F(DatasetReaderTest, ReadsArchivesOfRecordings) {
  const auto archive = [](const std::string& folder) {
    return files::Tar(
        {{folder + "/1.wav", files::Sound({.numbers = {0.5f, -0.5f}})}});
  };
  const std::vector<v1::DatasetFile> shards = {
      Store("0.tar", archive("high"), v1::DatasetFile::AUDIO),
      Store("1.tar", archive("low"), v1::DatasetFile::AUDIO)};
  v1::DatasetLayout layout;
  layout.set_format(v1::AUDIO);
  layout.mutable_audio()->set_samples(3);
  auto table = Read(shards, layout);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->features()),
              ElementsAre(0.5f, -0.5f, 0, 0.5f, -0.5f, 0));
  EXPECT_THAT(table->class_names, ElementsAre("high", "low"));
  v1::Dataset dataset = Describe(shards, *table);
  dataset.mutable_layout()->set_format(v1::AUDIO);
  EXPECT_EQ(*HostDataBytes(dataset, dir_, {}), table->host_bytes());
  EXPECT_EQ(
      *HostDataBytes(dataset, dir_, {.memory_bytes = 0, .unpack_dir = dir_}),
      0u);
  v1::ColumnCategories& classes = *layout.add_categories();
  classes.add_values("low");
  classes.add_values("high");
  EXPECT_THAT(Floats(Read(shards, layout)->labels()), ElementsAre(1, 0));
  layout.mutable_audio()->set_rate(16000);
  EXPECT_THAT(Read(shards, layout).status().message(),
              HasSubstr("layout.audio.rate is 16000"));
}

TEST_F(DatasetReaderTest, ReadsArchivesOfImages) {
  const auto archive = [](const std::string& folder, const std::string& pixel) {
    return files::Tar(
        {{folder + "/1.png", files::Png(files::Plain(2, 2, pixel))}});
  };
  const std::vector<v1::DatasetFile> shards = {
      Store("0.tar", archive("cat", "\1\2\3"), v1::DatasetFile::IMAGES),
      Store("1.tar", archive("dog", "\4\5\6"), v1::DatasetFile::IMAGES)};
  v1::DatasetLayout layout;
  layout.set_image_height(1);
  layout.set_image_width(1);
  auto table = Read(shards, layout);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->features()), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(table->class_names, ElementsAre("cat", "dog"));
  v1::Dataset dataset = Describe(shards, *table);
  EXPECT_EQ(*HostDataBytes(dataset, dir_, {}), table->host_bytes());
  EXPECT_EQ(
      *HostDataBytes(dataset, dir_, {.memory_bytes = 0, .unpack_dir = dir_}),
      0u);
  v1::ColumnCategories& classes = *layout.add_categories();
  classes.add_values("dog");
  classes.add_values("cat");
  EXPECT_THAT(Floats(Read(shards, layout)->labels()), ElementsAre(1, 0));
  layout.set_image_width(0);
  EXPECT_THAT(Read(shards, layout).status().message(),
              HasSubstr("image_width are 1 and 0"));
  layout.set_image_width(1);
  layout.set_image_channels(2);
  EXPECT_THAT(Read(shards, layout).status().message(),
              HasSubstr("image_channels is 2"));
}

TEST_F(DatasetReaderTest, ReadsPairsOfIdxFiles) {
  auto table = Read({Store("f-ubyte.gz",
                           Gzip(Big(0x0803, 4) + Big(2, 4) + Big(1, 4) +
                                Big(2, 4) + "\1\2\3\4"),
                           v1::DatasetFile::FEATURES),
                     Store("l-ubyte", Big(0x0801, 4) + Big(2, 4) + "\1\2",
                           v1::DatasetFile::LABELS)});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->features().shape, ElementsAre(1, 2));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(1, 2));
}

TEST_F(DatasetReaderTest, ReadsPairsOfNpyFiles) {
  auto table = Read(
      {Store("x.npy", Npy("|i1", "(2,1)", "\1\2"), v1::DatasetFile::FEATURES),
       Store("y.npy", Npy("|i1", "(2,)", "\1\1"), v1::DatasetFile::LABELS)});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->labels().facts.class_count(), 2u);
}

// Two rows of three int16 numbers with a label, in every form of files.
std::vector<std::vector<v1::DatasetFile>> DatasetReaderTest::Forms() {
  const std::string little = Little(1, 2) + Little(2, 2) + Little(0xffff, 2) +
                             Little(4, 2) + Little(5, 2) + Little(300, 2);
  const std::string big = Big(1, 2) + Big(2, 2) + Big(0xffff, 2) + Big(4, 2) +
                          Big(5, 2) + Big(300, 2);
  const std::string x = Npy("<i2", "(2, 3)", little);
  std::string eight;
  for (const double number : {1.0, 2.0, -1.0, 4.0, 5.0, 300.0}) {
    eight += Little(std::bit_cast<uint64_t>(number), 8);
  }
  const std::string doubles = Npy("<f8", "(2, 3)", eight);
  const std::string y = Npy("|u1", "(2,)", std::string("\0\1", 2));
  const std::string idx_x = Big(0x0B02, 4) + Big(2, 4) + Big(3, 4) + big;
  const std::string idx_y = Big(0x0801, 4) + Big(2, 4) + std::string("\0\1", 2);
  const auto pair = [&](const std::string& ending, const std::string& features,
                        const std::string& labels) {
    return std::vector{Store("x" + ending, features, v1::DatasetFile::FEATURES),
                       Store("y" + ending, labels, v1::DatasetFile::LABELS)};
  };
  return {pair(".npy", x, y),
          pair(".npy.gz", Gzip(x), Gzip(y)),
          pair(".idx", idx_x, idx_y),
          pair(".idx.gz", Gzip(idx_x), Gzip(idx_y)),
          pair(".npy", doubles, y),
          {Store("stored.npz", Zip({{"x.npy", x}, {"y.npy", y}}, false))},
          {Store("packed.npz", Zip({{"x.npy", x}, {"y.npy", y}}, true))},
          {Store("doubles.npz", Zip({{"x.npy", doubles}, {"y.npy", y}}, true))},
          {Store("t.csv", "1,2,-1,0\n4,5,300,1\n")}};
}

TEST_F(DatasetReaderTest, MappedTablesHoldTheSameNumbers) {
  for (const auto& files : Forms()) {
    SCOPED_TRACE(files[0].file_name());
    for (const uint64_t budget : {uint64_t{1000}, uint64_t{0}}) {
      const ReadLimits limits = {.memory_bytes = budget, .unpack_dir = dir_};
      auto table = ReadDataset({}, files, dir_, limits);
      ASSERT_TRUE(table.ok()) << table.status();
      EXPECT_EQ(table->rows, 2u);
      EXPECT_THAT(Floats(table->features()), ElementsAre(1, 2, -1, 4, 5, 300));
      EXPECT_THAT(Floats(table->labels()), ElementsAre(0, 1));
      EXPECT_EQ(table->labels().facts.class_count(), 2u);
      EXPECT_TRUE(table->CheckWhole().ok());
      if (budget == 0) {
        EXPECT_EQ(table->host_bytes(), 0u);
      } else {
        EXPECT_GT(table->host_bytes(), 0u);
      }
      auto planned = HostDataBytes(Describe(files, *table), dir_, limits);
      ASSERT_TRUE(planned.ok()) << planned.status();
      EXPECT_EQ(*planned, table->host_bytes());
    }
  }
}

TEST_F(DatasetReaderTest, WithoutAFolderUnpackedTablesStayInMemory) {
  for (const auto& files : Forms()) {
    SCOPED_TRACE(files[0].file_name());
    const ReadLimits limits = {.memory_bytes = 0};
    auto table = ReadDataset({}, files, dir_, limits);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(*HostDataBytes(Describe(files, *table), dir_, limits),
              table->host_bytes());
  }
}

TEST_F(DatasetReaderTest, AMappedFileThatIsCutOffIsNoticed) {
  const std::vector<v1::DatasetFile> files = Forms()[0];
  auto table = ReadDataset({}, files, dir_, {.memory_bytes = 0});
  ASSERT_TRUE(table.ok()) << table.status();
  std::filesystem::resize_file(dir_ + "/" + files[0].sha256(), 20);
  EXPECT_EQ(table->CheckWhole().code(), absl::StatusCode::kDataLoss);
}

TEST_F(DatasetReaderTest, MappedArraysAreCheckedLikeOthers) {
  const ReadLimits limits = {.memory_bytes = 0};
  const auto error = [&](const std::string& x) {
    const std::string y = Npy("|u1", "(2,)", "\1\1");
    return std::string(
        ReadDataset({},
                    {Store("x.npy", x, v1::DatasetFile::FEATURES),
                     Store("y.npy", y, v1::DatasetFile::LABELS)},
                    dir_, limits)
            .status()
            .message());
  };
  EXPECT_THAT(error(Npy("<f4", "(2,)", Little(0, 4) + Little(0x7fc00000, 4))),
              HasSubstr("x.npy, y.npy: features: element 1 is nan"));
  EXPECT_THAT(error(Npy("|u1", "(2, 3)", "12345")),
              HasSubstr("features: ends after 5 of 6"));
  EXPECT_THAT(error(Npy("|u1", "(2, 2)", "12345")),
              HasSubstr("features: has more bytes"));
  EXPECT_THAT(error(Npy("|u1", "(2, 1099511627776)", "12345")),
              HasSubstr("product at most 2^40"));
  EXPECT_THAT(error(Npy("|u1", "(2, 549755813888)", "12345")),
              HasSubstr("features: ends after 5"));
  EXPECT_THAT(
      ReadDataset({},
                  {Store("z.npz", Zip({{"x.npy", Npy("|u1", "(1,)", "1")},
                                       {"y.npy", Npy("|u1", "(1,)", "1")}},
                                      false, 1))},
                  dir_, limits)
          .status()
          .message(),
      HasSubstr("checksum differs"));
}

TEST_F(DatasetReaderTest, ArchivesThatLieAboutSizesAreRefused) {
  const std::string y = Npy("|u1", "(2,)", "\1\1");
  const auto error = [&](const std::string& archive, uint64_t memory_bytes) {
    return std::string(
        ReadDataset({}, {Store("t.npz", archive)}, dir_,
                    {.memory_bytes = memory_bytes, .unpack_dir = dir_})
            .status()
            .message());
  };
  for (const uint64_t memory_bytes : {uint64_t{0}, uint64_t{1000}}) {
    const std::string short_x = Npy("|u1", "(2, 3)", "12345");
    for (const bool deflated : {false, true}) {
      EXPECT_THAT(error(Zip({{"x.npy", short_x}, {"y.npy", y}}, deflated),
                        memory_bytes),
                  HasSubstr("features: ends after 5 of 6"));
    }
    // The directory says that x has a byte more than it stores.
    const std::string x = Npy("|u1", "(2, 3)", "123456");
    std::string archive = Zip({{"x.npy", x}, {"y.npy", y}}, false);
    const size_t entry = archive.find("PK\1\2");
    ASSERT_NE(entry, std::string::npos);
    archive[entry + 24] = static_cast<char>(archive[entry + 24] + 1);
    EXPECT_THAT(error(archive, memory_bytes), HasSubstr("than announced"));
    // It says that x stores more than there is.
    archive[entry + 23] = '\x7f';
    EXPECT_THAT(error(archive, memory_bytes),
                HasSubstr("a member lies outside the archive"));
  }
}

// 38 bytes that announce 2.5 GB.
TEST_F(DatasetReaderTest, AnIdxFileThatAnnouncesGigabytesEndsAtItsOwnEnd) {
  const std::string pixels =
      Big(0x0803, 4) + Big(3'200'000, 4) + Big(28, 4) + Big(28, 4);
  const std::string labels = Big(0x0801, 4) + Big(3'200'000, 4);
  const std::vector<v1::DatasetFile> files = {
      Store("f-ubyte", pixels + std::string(22, 'x'),
            v1::DatasetFile::FEATURES),
      Store("l-ubyte", labels, v1::DatasetFile::LABELS)};
  const auto table = ReadDataset({}, files, dir_,
                                 {.memory_bytes = 1 << 20, .unpack_dir = dir_});
  EXPECT_THAT(std::string(table.status().message()),
              HasSubstr("features: ends after 22 of"));
}

TEST_F(DatasetReaderTest, NamedArraysAreForArchives) {
  v1::DatasetLayout layout;
  (*layout.mutable_input_arrays())["a"] = "x";
  EXPECT_THAT(Read({Store("t.csv", "1,0\n")}, layout).status().message(),
              HasSubstr("are for NPZ archives, but the format is CSV"));
}

TEST_F(DatasetReaderTest, ErrorsNameTheFileAsTheUserCalledIt) {
  EXPECT_THAT(
      Read({Store("digits.csv", "1,2\n3,x\n")}).status().message(),
      HasSubstr("digits.csv: line 2 column 2: \"x\" is not a finite number"));
}

TEST_F(DatasetReaderTest, OptionsOfTheLayoutReachTheCsvReader) {
  const v1::DatasetFile file =
      Store("t.csv", "id,color,zip,y\n1,red,10,a\n2,,20,b\n3,blue,10,a\n");
  v1::DatasetLayout layout;
  layout.set_has_header(true);
  layout.set_missing(v1::DatasetLayout::ZERO);
  layout.set_text(v1::DatasetLayout::ONE_HOT);
  layout.add_text_columns("zip");
  layout.add_skipped_columns("id");
  v1::ColumnCategories& labels = *layout.add_categories();
  labels.set_column("y");
  labels.add_values("b");
  labels.add_values("a");
  auto table = Read({file}, layout);
  ASSERT_TRUE(table.ok()) << table.status();
  // red, blue, missing; 10, 20.
  EXPECT_THAT(Floats(table->features()),
              ElementsAre(1, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(1, 0, 1));
  auto planned = HostDataBytes(Describe({file}, *table), dir_, {});
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(*planned, table->host_bytes());
  layout.set_missing(v1::DatasetLayout::DROP_ROW);
  EXPECT_EQ(Read({file}, layout)->rows, 2u);
  layout.set_missing(v1::DatasetLayout::MEAN);
  EXPECT_EQ(Read({file}, layout)->rows, 3u);
  layout.set_missing(v1::DatasetLayout::REFUSE);
  EXPECT_THAT(
      Read({file}, layout).status().message(),
      HasSubstr("t.csv: line 3 column 2 (\"color\"): the cell is empty"));
}

TEST_F(DatasetReaderTest, FilesMustFitTheFormat) {
  const v1::DatasetFile table = Store("t.csv", "1,0\n");
  EXPECT_THAT(Read({table, table}).status().message(),
              HasSubstr("CSV datasets have one file; this one has 2"));
  EXPECT_THAT(Read({Store("x.npy", Npy("|i1", "(2,1)", "\1\2"),
                          v1::DatasetFile::FEATURES)})
                  .status()
                  .message(),
              HasSubstr("no file with role LABELS"));
  EXPECT_FALSE(Read({}).ok());
}

TEST_F(DatasetReaderTest, SpoiledOrMissingBlobsAreToldApart) {
  v1::DatasetFile file = Store("t.csv", "5,6\n");
  files::WriteFile(dir_ + "/" + file.sha256(), "5,7\n");
  EXPECT_EQ(Read({file}).status().code(), absl::StatusCode::kDataLoss);
  file.set_sha256(std::string(64, '0'));
  EXPECT_EQ(Read({file}).status().code(), absl::StatusCode::kNotFound);
  file.set_sha256("../../etc/passwd");
  EXPECT_EQ(Read({file}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::engine
