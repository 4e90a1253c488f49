"""The architectures Shoal has execution code for, as far as the catalog must know them.

Decides which family a Hugging Face `config.json` belongs to. Knows no weights and no tensors:
the code of a family lives in the runtimes.
"""

from __future__ import annotations

import msgspec

#: In the folder of a model that reads: its characters by code.
CHARACTERS = "characters.json"


class Family(msgspec.Struct, frozen=True):
    """One architecture.

    Attributes:
        model_types: values of `model_type` in `config.json` that mean this family.
        encoders: values of `architectures` whose encoder gives token vectors; anything else is
            a head of another task on top of it.
        generators: values of `architectures` that carry on texts with that encoder, or write them beside it.
        position_offset: rows at the start of the position table that no token uses; None: those
            up to the padding token's.
        positions: how many there are where `config.json` does not say.
        code: classes of the code that its models bring along, where they do: the family computes
            what those do, and they are never run.
        media: what its models take besides text, decoded by the worker.
        graphs: files of its models, where those are ONNX graphs and no safetensors.
        graphed: whether ONNX graphs are made of its safetensors.
        anew: whether a text that its models write begins by itself, after a prompt that another part of
            them read, and does not go on with the prompt.
        files: whether its models are folders with weights and a tokenizer.
    """

    name: str
    model_types: tuple[str, ...] = ()
    encoders: tuple[str, ...] = ()
    generators: tuple[str, ...] = ()
    position_offset: int | None = 0
    positions: int | None = None
    code: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    graphs: tuple[str, ...] = ()
    graphed: bool = False
    anew: bool = False
    files: bool = True


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("albert", ("albert",), ("AlbertModel", "AlbertForMaskedLM", "AlbertForPreTraining")),
        Family(
            "bert",
            ("bert",),
            ("BertModel", "BertForMaskedLM", "BertForPreTraining"),
            graphed=True,
        ),
        Family("clip", ("clip",), ("CLIPModel",), media=("image",)),
        Family(
            "colmodernvbert",
            ("colmodernvbert",),
            ("ColModernVBertForRetrieval",),
            positions=8192,
            media=("image",),
        ),
        Family("colpali", ("colpali",), ("ColPaliForRetrieval",), positions=8192, media=("image",)),
        Family("siglip", ("siglip",), ("SiglipModel",), media=("image",)),
        Family("deberta", ("deberta-v2",), ("DebertaV2Model", "DebertaV2ForMaskedLM")),
        Family(
            "distilbert",
            ("distilbert",),
            ("DistilBertModel", "DistilBertForMaskedLM"),
            graphed=True,
        ),
        Family("electra", ("electra",), ("ElectraModel", "ElectraForPreTraining")),
        Family("mpnet", ("mpnet",), ("MPNetModel", "MPNetForMaskedLM"), position_offset=2),
        Family(
            "t5",
            ("t5",),
            ("T5EncoderModel",),
            ("T5ForConditionalGeneration", "T5WithLMHeadModel"),
            positions=512,
            anew=True,
        ),
        Family(
            "roberta",
            ("roberta", "xlm-roberta", "camembert"),
            (
                *("RobertaModel", "RobertaForMaskedLM"),
                *("XLMRobertaModel", "XLMRobertaForMaskedLM"),
                *("CamembertModel", "CamembertForMaskedLM"),
            ),
            position_offset=None,
            graphed=True,
        ),
        Family("whisper", ("whisper",), ("WhisperForConditionalGeneration",), media=("audio",)),
        Family(
            "efficientnet",
            ("efficientnet",),
            ("EfficientNetModel", "EfficientNetForImageClassification"),
            media=("image",),
        ),
        Family("vit", ("vit",), ("ViTModel", "ViTForImageClassification"), media=("image",)),
        Family("modernbert", ("modernbert",), ("ModernBertModel", "ModernBertForMaskedLM")),
        Family(
            "nomic",
            ("nomic_bert",),
            ("NomicBertModel", "NomicBertForMaskedLM", "NomicBertForPreTraining"),
            code=("NomicBertModel",),
        ),
        Family(
            "gte",
            ("new", "gte"),
            ("NewModel", "NewForMaskedLM", "GteModel", "GteForMaskedLM"),
            code=("NewModel", "GteModel"),
        ),
        Family("gemma3", ("gemma3_text",), ("Gemma3TextModel",), ("Gemma3ForCausalLM",)),
        Family(
            "idefics3",
            ("idefics3", "smolvlm"),
            generators=("Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration"),
            media=("image",),
        ),
        Family("llama", ("llama",), ("LlamaModel",), ("LlamaForCausalLM",)),
        Family("mistral", ("mistral",), ("MistralModel",), ("MistralForCausalLM",)),
        Family("qwen2", ("qwen2",), ("Qwen2Model",), ("Qwen2ForCausalLM",)),
        Family("qwen3", ("qwen3",), ("Qwen3Model",), ("Qwen3ForCausalLM",)),
        Family("smollm3", ("smollm3",), ("SmolLM3Model",), ("SmolLM3ForCausalLM",)),
        Family(
            "ppocr",
            media=("image",),
            graphs=("detection.onnx", "recognition.onnx", "angle.onnx"),
        ),
        Family("fake", files=False),
    )
}


def family_of(model_type: str) -> Family | None:
    """The family of a `model_type`, or None if there is no code for it."""
    return next((f for f in FAMILIES.values() if model_type in f.model_types), None)


def known_model_types() -> list[str]:
    """Every `model_type` that can be served, sorted."""
    return sorted(kind for family in FAMILIES.values() for kind in family.model_types)
