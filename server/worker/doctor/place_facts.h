// Where the daemon would write and listen: the state folder, tried with a file
// of its own that is removed again, and the ports.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpupool::server {

struct StateFacts {
  std::string path;         // asked for
  std::string existing;     // itself or, before it is made, what it would be in
  std::string file_system;  // "ext4", "tmpfs", "nfs4"; "other" when unknown
  uint64_t free_bytes = 0;
  // The system's words for the step that failed; empty when none did.
  std::string folder_error;  // why no folder can be there: "it is a file"
  std::string write_error;
  std::string sync_error;
  bool read_only = false;  // the file system, which then is the write error
  bool held = false;       // by a gpupoold that runs
};

// Makes no folder.
StateFacts ReadStateFacts(const std::string& path);

// Tells what is wrong with the folders, separated by colons, that are to
// have NVIDIA's libraries: "/a is not there".
std::vector<std::string> FolderErrors(const std::string& folders);

// Whether `address` is one of IPv4 or IPv6, as the server's is to be.
bool IsAddress(const std::string& address);

// Returns those of `ports`, each once, on which nothing can listen at
// `address`.
std::vector<uint16_t> HeldPorts(const std::string& address,
                                const std::vector<uint16_t>& ports);

}  // namespace gpupool::server
