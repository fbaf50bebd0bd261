#include "server/store/upload_sidecar.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

UploadSidecar Example() {
  return {.sha256 = std::string(64, 'a'),
          .total_bytes = 7,
          .durable_bytes = 3,
          .boot_id = "b-1"};
}

TEST(UploadSidecarTest, TextIsOneLine) {
  EXPECT_EQ(SidecarText(Example()),
            "gpupool-upload 1 " + std::string(64, 'a') + " 7 3 b-1\n");
}

TEST(UploadSidecarTest, ATenantStandsAtTheEnd) {
  UploadSidecar sidecar = Example();
  sidecar.tenant = "a.x";
  const std::string text = SidecarText(sidecar);
  EXPECT_EQ(text,
            "gpupool-upload 2 " + std::string(64, 'a') + " 7 3 b-1 a.x\n");
  EXPECT_EQ(ParseSidecar(text)->tenant, "a.x");
  EXPECT_EQ(ParseSidecar(SidecarText(Example()))->tenant, "");
}

TEST(UploadSidecarTest, ReadsWhatWasWrittenOverAnOlderFile) {
  TempDir folder;
  UploadSidecar sidecar = Example();
  ASSERT_TRUE(WriteSidecar(folder / "x.info", sidecar).ok());
  sidecar.durable_bytes = 7;
  ASSERT_TRUE(WriteSidecar(folder / "x.info", sidecar).ok());
  const auto read = ReadSidecar(folder / "x.info");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->sha256, sidecar.sha256);
  EXPECT_EQ(read->total_bytes, 7u);
  EXPECT_EQ(read->durable_bytes, 7u);
  EXPECT_EQ(read->boot_id, "b-1");
  EXPECT_FALSE(std::filesystem::exists(folder / "x.info.new"));
}

TEST(UploadSidecarTest, MissingFileIsNotFound) {
  TempDir folder;
  EXPECT_TRUE(absl::IsNotFound(ReadSidecar(folder / "x.info").status()));
}

TEST(UploadSidecarTest, DamagedTextIsRefused) {
  const std::string digest(64, 'a');
  for (const std::string& text :
       {std::string(), std::string("\n"),
        "gpupool-upload 1 " + digest + " 7 3 b",
        "gpupool-upload 2 " + digest + " 7 3 b\n",
        "gpupool-upload 1 " + digest + " 7 8 b\n",
        "gpupool-upload 1 " + digest + " 0 0 b\n",
        "gpupool-upload 1 " + digest + " -7 3 b\n",
        std::string("gpupool-upload 1 ../x 7 3 b\n"),
        "gpupool-upload 1 " + digest + " 7 3 \n",
        "gpupool-upload 1 " + digest + " 7 3 b c\n",
        "gpupool-upload 2 " + digest + " 7 3 b \n",
        "gpupool-upload 2 " + digest + " 7 3 b c d\n"}) {
    EXPECT_TRUE(absl::IsDataLoss(ParseSidecar(text).status())) << text;
  }
}

TEST(UploadSidecarTest, BootIdIsOneWordAndStaysTheSame) {
  const std::string id = MachineBootId();
  EXPECT_FALSE(id.empty());
  EXPECT_EQ(id.find_first_of(" \n"), std::string::npos);
  EXPECT_EQ(id, MachineBootId());
}

}  // namespace
}  // namespace gpupool::server
