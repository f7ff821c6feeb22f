# A fault that only the order of threads shows: slots are counted by age, and the counts read before all are in.
/atomicAdd\(&v.hist\[held.bin\[i\]\], 1u\)/,/__syncthreads\(\);/s/__syncthreads\(\);//
