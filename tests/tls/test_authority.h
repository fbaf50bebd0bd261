// Files with real certificates, for tests of connections.
//
//   TestAuthority authority;
//   Serve(authority.Server("127.0.0.1"));
//   Call({.ca = authority.ca()}, authority.Client("mia"));
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/server/store/temp_dir.h"
#include "tls/authority.h"
#include "tls/tls_files.h"

namespace gpupool::tls {

// Writes a file that only its owner may read. Replaces an existing one at once,
// as a careful operator does.
inline void WritePrivateFile(const std::string& path, absl::string_view text) {
  const std::string fresh = path + ".new";
  std::ofstream(fresh, std::ios::binary) << text;
  ASSERT_EQ(::chmod(fresh.c_str(), 0600), 0);
  std::filesystem::rename(fresh, path);
}

inline std::string TextOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

// A valid span around now, or one that is over since an hour.
inline Validity Now() {
  const absl::Time now = absl::Now();
  return {now - absl::Hours(1), now + absl::Hours(24)};
}
inline Validity Past() {
  const absl::Time now = absl::Now();
  return {now - absl::Hours(24), now - absl::Hours(1)};
}

class TestAuthority {
 public:
  TestAuthority() {
    auto made = MakeAuthority("test authority", Now());
    EXPECT_TRUE(made.ok()) << made.status();
    own_ = *std::move(made);
    WritePrivateFile(ca(), own_.certificate);
  }

  std::string ca() const { return folder_ / "ca.pem"; }
  const PemPair& own() const { return own_; }
  const server::TempDir& folder() const { return folder_; }

  // Writes HOST.pem and HOST.key, over earlier ones, and returns their names.
  TlsFiles Server(const std::string& host,
                  const Validity& validity = Now()) const {
    return Write(host, MakeServerPair(own_, {host}, validity));
  }
  TlsFiles Client(const std::string& name,
                  const Validity& validity = Now()) const {
    return Write(name, MakeClientPair(own_, name, validity));
  }

 private:
  TlsFiles Write(const std::string& name,
                 const absl::StatusOr<PemPair>& pair) const {
    EXPECT_TRUE(pair.ok()) << pair.status();
    const TlsFiles files = {.certificate = folder_ / (name + ".pem"),
                            .key = folder_ / (name + ".key")};
    WritePrivateFile(files.key, pair->key);
    WritePrivateFile(files.certificate, pair->certificate);
    return files;
  }

  const server::TempDir folder_;
  PemPair own_;
};

}  // namespace gpupool::tls
