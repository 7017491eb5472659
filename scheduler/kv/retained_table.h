// What a sequence remembers of a table that it gave up, to find its blocks again.
#ifndef OCTAVO_SCHEDULER_KV_RETAINED_TABLE_H_
#define OCTAVO_SCHEDULER_KV_RETAINED_TABLE_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"

namespace octavo {

// A block that was given up keeps its content until it is lent again (kv.5), and that shows in its
// number of lendings. A host block, where there is one, keeps it whatever becomes of the other.
struct RetainedBlock {
  BlockId block = kPaddingBlock;
  uint64_t lending = 0;
  BlockId host = kPaddingBlock;  // kPaddingBlock: no copy
};

// Holds no references: it costs nobody a block of the device.
struct RetainedTable {
  std::vector<RetainedBlock> blocks;  // by position, the last one may be partly filled
  int32_t tokens = 0;                 // that they held
  int32_t shared_tokens = 0;          // of those, the first ones that other tables held too

  bool empty() const { return blocks.empty(); }
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_KV_RETAINED_TABLE_H_
