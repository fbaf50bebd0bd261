// Files in a folder that stands for /dev/shm.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/server/store/temp_dir.h"

namespace gpupool::server {

class RegionFiles {
 public:
  // Makes a file that every user may read and write.
  void Put(const std::string& key, const std::string& bytes,
           mode_t mode = 0666) const {
    std::ofstream(PathOf(key), std::ios::binary) << bytes;
    EXPECT_EQ(chmod(PathOf(key).c_str(), mode), 0);
  }
  void Resize(const std::string& key, uint64_t bytes) const {
    std::filesystem::resize_file(PathOf(key), bytes);
  }
  std::string Get(const std::string& key) const {
    std::ostringstream text;
    text << std::ifstream(PathOf(key), std::ios::binary).rdbuf();
    return text.str();
  }
  std::string PathOf(const std::string& key) const { return folder() + key; }
  std::string folder() const { return folder_.path(); }

 private:
  TempDir folder_;
};

}  // namespace gpupool::server
