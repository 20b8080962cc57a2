/* describe_device.c - prints what cuDNN knows of this machine's GPU as the JSON that its
 * plans can be built from without one: tests/cuda/devices/ holds such files. */
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(cudnnStatus_t status, const char *what)
{
    if (status != CUDNN_STATUS_SUCCESS)
        fprintf(stderr, "describe_device: %s: %s\n", what, cudnnGetErrorString(status));
    return status != CUDNN_STATUS_SUCCESS;
}

int main(void)
{
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t properties;
    const cudnnBackendAttributeName_t json = CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION;
    int device = 0;
    int64_t bytes = 0;
    if (failed(cudnnCreate(&handle), "cudnnCreate") ||
        failed(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
                                            &properties),
               "descriptor") ||
        failed(cudnnBackendSetAttribute(properties, CUDNN_ATTR_DEVICEPROP_DEVICE_ID,
                                        CUDNN_TYPE_INT32, 1, &device),
               "device id") ||
        failed(cudnnBackendFinalize(properties), "finalize") ||
        failed(
            cudnnBackendGetAttribute(properties, json, CUDNN_TYPE_CHAR, 0, &bytes, NULL),
            "size of the JSON"))
        return 1;
    char *text = calloc(1, (size_t)bytes + 1);
    if (!text || failed(cudnnBackendGetAttribute(properties, json, CUDNN_TYPE_CHAR, bytes,
                                                 &bytes, text),
                        "JSON"))
        return 1;
    printf("%s\n", text);
    free(text);
    cudnnBackendDestroyDescriptor(properties);
    cudnnDestroy(handle);
    return 0;
}
