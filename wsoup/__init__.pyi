from wsoup.api.accuracy import Accuracy as Accuracy
from wsoup.api.accuracy import zero_shot_accuracy as zero_shot_accuracy
from wsoup.api.heads import fit_head as fit_head
from wsoup.api.images import encode_images as encode_images
from wsoup.api.soups import Soup as Soup
from wsoup.api.soups import common_words as common_words
from wsoup.api.soups import descriptor_soup as descriptor_soup
from wsoup.api.soups import score_texts as score_texts
from wsoup.api.soups import template_soup as template_soup
from wsoup.api.soups import word_soup as word_soup
from wsoup.api.transformers import from_transformers as from_transformers
from wsoup.base.errors import WsoupError as WsoupError
from wsoup.heads.head import Head as Head
from wsoup.photos.adaptation import adapt as adapt
from wsoup.texts.encoder import PromptEncoder as PromptEncoder

__version__: str
