// Files of an audit log as texts, and records to write, for its tests.
#pragma once

#include <deque>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "audit/audit_record.h"

namespace gpupool::audit {

inline std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void SetText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// Returns records of calls, of which the object tells them apart.
inline std::deque<Record> SomeRecords(int count) {
  std::deque<Record> records;
  for (int i = 0; i < count; ++i) {
    Record record;
    record.event = "call";
    record.object = "id=" + std::to_string(i + 1);
    records.push_back(record);
  }
  return records;
}

}  // namespace gpupool::audit
