/* A kernel that does nothing: what a launch, or a node of a graph, costs by itself. */
#ifndef KVL_KERNELS_EMPTY_H
#define KVL_KERNELS_EMPTY_H

#ifdef __cplusplus
extern "C" {
#endif

/* `context`: a cudaStream_t; not used by the reference. 0, or -EIO when the launch was refused. */
typedef int kvl_empty_fn(void *context);
kvl_empty_fn kvl_empty_ref, kvl_empty_cuda;

#ifdef __cplusplus
}
#endif

#endif
